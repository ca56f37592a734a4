package ledger

import (
	"cmp"
	"math"
	"slices"
)

// delaysNobody reports whether w, which fits now, may be granted before those ahead of it, none of which does: see Passing in the package's documentation.
// l.mu is held.
//
// For every pot and everyone ahead: let need be what it and those before it ask for together, and missing what that is more than what is free. Its turn comes when
// some of the chunks that others hold have come back, missing or more in sum. Chunks come back whole: a permit, all of a purpose of a grant, a resident. Which
// and when nobody knows; but if no choice of them has a sum of at least missing and less than missing + what w takes, then any choice that is enough for its turn
// is enough for it and w together, and w does not matter. Those before it hold nothing yet, but will, and will give it back too, or leave the line
// without having had it: their chunks count like the others. Where w takes nothing of a pot, it does not matter there.
func (l *Ledger) delaysNobody(w *waiter, ahead []*waiter) bool {
	for _, r := range w.Residents {
		if (!r.charged || r.state != loaded) && slices.ContainsFunc(ahead, func(a *waiter) bool { return a.uses(r) }) {
			return false // w may find out that it is larger than planned, and hold it so
		}
	}
	for d := range l.pots() {
		if !l.delaysNobodyIn(d, w, ahead) {
			return false
		}
	}
	return true
}

func (l *Ledger) delaysNobodyIn(d int, w *waiter, ahead []*waiter) bool {
	var seen passed
	for _, a := range ahead {
		seen.critical = a.critical()
		for _, r := range a.Residents {
			seen.use(r, d)
		}
		seen.want(a.in(d), a.critical())
		takes := w.in(d)
		for _, r := range w.Residents {
			if !a.uses(r) { // which holds it in place too
				takes = plus(takes, r.in(d))
			}
		}
		if takes > 0 && !l.roomBeside(d, takes, a, &seen) {
			return false
		}
		// From here on it is one of those before.
		seen.loose = plus(seen.loose, seen.late)
		seen.late = 0
		for i := range a.parts {
			if a.parts[i].Account.index == d {
				seen.chunks = appendChunks(seen.chunks, &a.parts[i].Bytes, a.critical())
			}
		}
		if d == 0 && a.Permit {
			seen.chunks = append(seen.chunks, chunk{1, a.critical()})
		}
	}
	return true
}

// chunk is an amount that comes back at once.
type chunk struct {
	n        int64
	critical bool
}

func appendChunks(list []chunk, b *Bytes, critical bool) []chunk {
	for _, n := range b {
		if n > 0 {
			list = append(list, chunk{n, critical})
		}
	}
	return list
}

// passed is the front of the line up to one waiter, as one pot sees it.
type passed struct {
	critical     bool        // that waiter is
	need         int64       // of all of them
	needCritical int64       // of need, what counts against the reserve
	residents    []*Resident // they use
	plain        []*Resident // of these, those that are counted outside of the reserve
	chunks       []chunk     // that those before it will hold
	loose        int64       // and what of theirs may come back in any amount
	late         int64       // the same of the waiter itself, once it is one of those before
}

// use is the resident r of the waiter.
func (s *passed) use(r *Resident, d int) {
	if !slices.Contains(s.residents, r) {
		s.residents = append(s.residents, r)
		more := int64(0)
		switch {
		case !r.charged:
			more = r.in(d)
		case r.next > r.size && d == 1:
			more = r.next - r.size
		}
		s.want(more, s.critical)
		// What a key takes in the end may be less than planned: any part of it may come back. And one that is there already may come to lie in the reserve.
		s.late = plus(s.late, more)
		if r.charged && s.critical && !r.critical {
			s.late = plus(s.late, r.in(d))
		}
		if !s.critical && !(r.charged && r.critical) {
			s.plain = append(s.plain, r)
		}
	}
	if !s.critical && !slices.Contains(s.plain, r) {
		// It lies in the reserve, or will; but who would bring it there may leave the line, or it may be evicted, and then it is needed outside of the reserve.
		s.plain = append(s.plain, r)
		s.want(r.in(d), false)
		s.loose = plus(s.loose, r.in(d))
	}
}

func (s *passed) want(n int64, critical bool) {
	s.need = plus(s.need, n)
	if critical {
		s.needCritical = plus(s.needCritical, n)
	}
}

// roomBeside reports that no choice of chunks is enough for a, the last of those passed, and not enough for it with takes beside. l.mu is held.
func (l *Ledger) roomBeside(d int, takes int64, a *waiter, seen *passed) bool {
	p := l.pot(d)
	missing := plus(seen.need, -p.free(true))
	chunks, loose := l.chunks(d, a.Residents) // those stay, or come back and are asked for again
	chunks, loose = append(chunks, seen.chunks...), plus(loose, seen.loose)
	if !seen.critical {
		// What critical requests give back below the reserve is kept for them; any part of the rest may come back.
		critical := plus(p.critical, seen.needCritical)
		missing = plus(missing, max(0, p.reserve-critical))
		loose = plus(loose, max(0, critical-p.reserve))
	}
	sizes := make([]int64, 0, len(chunks))
	for _, c := range chunks {
		if seen.critical || !c.critical {
			sizes = append(sizes, c.n)
		}
	}
	below := plus(missing, takes)
	return below < math.MaxInt64 && !hasSum(sizes, plus(missing, -loose), below)
}

// chunks are what can come back to pot d, except from residents, which stay. What is being loaded may turn out smaller by any amount: that is loose. l.mu is
// held.
func (l *Ledger) chunks(d int, except []*Resident) (list []chunk, loose int64) {
	for g := range l.grants {
		if d == 0 && g.permit {
			list = append(list, chunk{1, g.critical})
		}
		for i := range g.parts {
			if g.parts[i].Account.index == d {
				list = appendChunks(list, &g.parts[i].Bytes, g.critical)
			}
		}
	}
	for r := range l.residents {
		switch n := r.in(d); {
		case !r.charged || n == 0:
		case r.state != loaded && !r.evicting:
			loose = plus(loose, n)
		case !slices.Contains(except, r):
			list = append(list, chunk{n, r.critical})
		}
	}
	return list, loose
}

// maxSums bounds the work of hasSum.
const maxSums = 512

// hasSum reports whether some of the sizes, or none, have a sum from least to less than below. It may say yes where the answer is no, when there are too many
// sums to tell.
func hasSum(sizes []int64, least, below int64) bool {
	if least >= below {
		return false
	}
	if least <= 0 {
		return below > 0 // none of them
	}
	slices.SortFunc(sizes, func(a, b int64) int { return cmp.Compare(b, a) }) // the largest first: they decide most
	rest := make([]int64, len(sizes)+1)                                       // the sum of those from here on
	for i := len(sizes) - 1; i >= 0; i-- {
		rest[i] = plus(rest[i+1], sizes[i])
	}
	sums := append(make([]int64, 0, 2*maxSums), 0) // of those before, ascending: less than below, and least can still be reached
	next := make([]int64, 0, 2*maxSums)
	for i, n := range sizes {
		if n >= below {
			continue
		}
		next = next[:0]
		add := func(s int64) {
			if plus(s, rest[i+1]) >= least && (len(next) == 0 || next[len(next)-1] != s) {
				next = append(next, s)
			}
		}
		without := sums
		for _, s := range sums {
			with := plus(s, n)
			if with >= below {
				break
			}
			if with >= least {
				return true
			}
			for len(without) > 0 && without[0] <= with {
				add(without[0])
				without = without[1:]
			}
			add(with)
		}
		for _, s := range without {
			add(s)
		}
		if sums, next = next, sums; len(sums) > maxSums {
			return true
		}
	}
	return false
}
