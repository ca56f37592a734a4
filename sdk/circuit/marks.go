package circuit

import "context"

// Mark is a named part of a circuit: its path and the counts at its beginning and its end.
type Mark struct {
	Path     string
	From, To Counts
}

// Marks lists the parts of c down to a depth of names (1: the outermost only), in the order in which they are entered.
func Marks(ctx context.Context, c Circuit, depth int) ([]Mark, error) {
	m := &marks{depth: depth}
	if _, err := record(ctx, c, &recorder{marks: m}, nil); err != nil {
		return nil, err
	}
	return m.list, nil
}

type marks struct {
	depth int
	list  []Mark
	open  []int // indexes in list
}

func (m *marks) enter(scopes []scope, n Counts) {
	if len(scopes) > m.depth {
		return
	}
	m.open = append(m.open, len(m.list))
	m.list = append(m.list, Mark{Path: pathOf(scopes, ""), From: n})
}

func (m *marks) leave(depth int, n Counts) {
	if depth > m.depth {
		return
	}
	last := len(m.open) - 1
	m.list[m.open[last]].To = n
	m.open = m.open[:last]
}
