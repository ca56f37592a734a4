package record

import "time"

// series is a value over time in bounded memory: of each short while it keeps the peak and the last value. When there are too many of them, two become one, so that a run of any
// length takes the same memory, and no peak is lost.
type series[V comparable] struct {
	most int           // buckets kept, even
	step time.Duration // length of a bucket
	end  time.Duration // of what was told
	list []bucket[V]   // ascending; those in which nothing changed are left out
	peak func(a, b V) V
}

type bucket[V comparable] struct {
	at         int64 // number: it begins at times step
	peak, last V
}

// firstStep is fine enough for a run of seconds.
const firstStep = time.Millisecond

// newSeries has at most most buckets; peak says what is kept of two values.
func newSeries[V comparable](most int, peak func(a, b V) V) series[V] {
	return series[V]{most: most, step: firstStep, peak: peak}
}

// add notes that the value is v from at on, a time since the beginning. Two sources may be told of late: then v counts for the last bucket.
func (s *series[V]) add(at time.Duration, v V) {
	s.end = max(s.end, at)
	n := int64(max(at, 0) / s.step)
	if k := len(s.list); k > 0 && n <= s.list[k-1].at {
		b := &s.list[k-1]
		b.peak, b.last = s.peak(b.peak, v), v
		return
	}
	s.list = append(s.list, bucket[V]{n, v, v})
	for len(s.list) > s.most {
		s.halve()
	}
}

func (s *series[V]) halve() {
	s.step *= 2
	out := s.list[:0]
	for _, b := range s.list {
		b.at /= 2
		if k := len(out); k > 0 && out[k-1].at == b.at {
			o := &out[k-1]
			o.peak, o.last = s.peak(o.peak, b.peak), b.last
			continue
		}
		out = append(out, b)
	}
	clear(s.list[len(out):])
	s.list = out
}

// Point is a value that holds from At on, until the next point. Two at one moment are a peak and what was left of it.
type Point[V comparable] struct {
	At    time.Duration // since the beginning
	Value V
}

// points are the steps to draw: in a bucket the peak comes first and the last value follows half a bucket later.
func (s *series[V]) points() []Point[V] {
	out := make([]Point[V], 0, 2*len(s.list))
	for _, b := range s.list {
		at := time.Duration(b.at) * s.step
		out = append(out, Point[V]{at, b.peak})
		if b.last != b.peak {
			out = append(out, Point[V]{min(at+s.step/2, s.end), b.last})
		}
	}
	return out
}
