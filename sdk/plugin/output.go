package plugin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sort"
	"strings"
	"sync"
)

const (
	// maxLine is the longest line that is looked at as one; what follows in the line is dropped.
	maxLine = 64 << 10
	// maxLoggedLine cuts lines that are logged as they are.
	maxLoggedLine = 4 << 10
	// tailLines and tailLine bound what is kept of a plugin's last words.
	tailLines = 20
	tailLine  = 400
)

// readLines calls each for every line of r, cut to maxLine, with the line's true length; it returns at the end of r.
func readLines(r io.Reader, each func(line string, length int)) {
	b := bufio.NewReaderSize(r, 16<<10)
	var line []byte
	length := 0
	for {
		part, err := b.ReadSlice('\n')
		length += len(part)
		if room := maxLine - len(line); room > 0 {
			line = append(line, part[:min(room, len(part))]...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if length > 0 {
			each(strings.TrimRight(string(line), "\r\n"), length)
		}
		if line, length = line[:0], 0; cap(line) > 16<<10 {
			line = nil
		}
		if err != nil {
			return
		}
	}
}

// lastWords keeps the end of what a plugin wrote, for the report of its death. The first line of a Go panic or of a
// runtime's fatal error is kept even when a long stack trace follows.
type lastWords struct {
	mu    sync.Mutex
	panic string
	lines []string
}

var panicMarks = []string{"panic: ", "fatal error: ", "SIGSEGV: ", "SIGBUS: ", "SIGABRT: ", "SIGILL: ", "unexpected fault address", "terminate called"}

func (w *lastWords) add(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line = cut(line, tailLine)
	for _, m := range panicMarks {
		if w.panic == "" && strings.HasPrefix(line, m) {
			w.panic = line
		}
	}
	if w.lines = append(w.lines, line); len(w.lines) > tailLines {
		w.lines = w.lines[1:]
	}
}

// cause is the one line that says most, or "".
func (w *lastWords) cause() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.panic != "" {
		return w.panic
	}
	for i := len(w.lines) - 1; i >= 0; i-- {
		if s := strings.TrimSpace(w.lines[i]); s != "" {
			return s
		}
	}
	return ""
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + fmt.Sprintf("... (%d bytes more)", len(s)-n)
}

// crashLines is how much of a crash is shown at error level.
const crashLines = 12

// logLine logs one line of a plugin's output: a JSON record of log/slog or hclog with its own level and attributes, any
// other line as it is, at debug level, or at error level the first crashLines lines of a crash: a Go program's dump of its goroutines has thousands, and
// a host whose own stderr nobody drains must not block in them.
func logLine(log *slog.Logger, line string, length int, crashed *int) {
	if strings.TrimSpace(line) == "" {
		return
	}
	if level, msg, attrs, ok := parseRecord(line); ok && length <= maxLine {
		log.Log(context.Background(), level, msg, attrs...)
		return
	}
	level := slog.LevelDebug
	for _, m := range panicMarks {
		if *crashed == 0 && strings.HasPrefix(line, m) {
			*crashed = 1
		}
	}
	if *crashed > 0 {
		if *crashed <= crashLines {
			level = slog.LevelError
		}
		*crashed++
	}
	text := cut(line, maxLoggedLine)
	if length > maxLine {
		text += fmt.Sprintf(" [line of %d bytes]", length)
	}
	log.Log(context.Background(), level, text)
}

func parseRecord(line string) (level slog.Level, msg string, attrs []any, ok bool) {
	if !strings.HasPrefix(line, "{") {
		return 0, "", nil, false
	}
	var record map[string]any
	if json.Unmarshal([]byte(line), &record) != nil {
		return 0, "", nil, false
	}
	text := func(names ...string) string {
		for _, n := range names {
			if s, found := record[n].(string); found {
				delete(record, n)
				return s
			}
		}
		return ""
	}
	name := text("level", "@level")
	if msg = text("msg", "@message"); name == "" || msg == "" {
		return 0, "", nil, false
	}
	if level.UnmarshalText([]byte(strings.ToUpper(name))) != nil {
		level = slog.LevelDebug // hclog's "trace"
	}
	text("time", "@timestamp")
	keys := make([]string, 0, len(record))
	for k := range record {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		attrs = append(attrs, k, record[k])
	}
	return level, msg, attrs, true
}
