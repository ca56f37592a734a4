package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"
)

// helpWidth is the width of help in columns.
const helpWidth = 80

// printHelp is urfave/cli's printer with lines that fit a terminal.
func printHelp(w io.Writer, template string, data any) {
	var b bytes.Buffer
	cli.HelpPrinterCustom(&b, template, data, nil)
	_, _ = io.WriteString(w, wrapHelp(b.String(), helpWidth))
}

// column finds where the second column of a line of a table begins.
var column = regexp.MustCompile(`^ +\S.*?  +`)

// wrapHelp breaks lines wider than width. In a description, lines without further indentation are the text of a paragraph and flow together; others are
// examples and tables, and a command among them goes on behind a backslash. Elsewhere the second column of a table stays a column.
func wrapHelp(text string, width int) string {
	const margin = "   "
	var out, paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			out = append(out, fold(margin, margin, strings.Join(paragraph, " "), "", width)...)
			paragraph = nil
		}
	}
	described := false
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " ")
		if line != "" && line[0] != ' ' {
			described = line == "DESCRIPTION:"
		}
		body := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(body)]
		if described && indent == margin {
			paragraph = append(paragraph, body)
			continue
		}
		flush()
		switch head := column.FindString(line); {
		case len(line) <= width:
			out = append(out, line)
		case strings.HasPrefix(body, "weir ") && described:
			out = append(out, fold(indent, indent+"    ", body, ` \`, width)...)
		case head != "":
			out = append(out, fold(head, strings.Repeat(" ", len(head)), line[len(head):], "", width)...)
		default:
			out = append(out, fold(indent, indent+"  ", body, "", width)...)
		}
	}
	flush()
	return strings.Join(out, "\n")
}

// fold sets words into lines: the first begins with first, the others with next; all but the last end with tail.
func fold(first, next, text, tail string, width int) []string {
	var out []string
	line, empty := first, true
	words := strings.Fields(text)
	for i := 0; i < len(words); i++ {
		word := words[i]
		if tail != "" && strings.HasPrefix(word, "--") && i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			i++ // a flag keeps its value
			word += " " + words[i]
		}
		if !empty && len(line)+1+len(word)+len(tail) > width {
			out = append(out, line+tail)
			line, empty = next, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	return append(out, line)
}
