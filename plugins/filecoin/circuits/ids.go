// Package circuits has Filecoin's circuits, and their blank forms by name.
package circuits

import (
	"regexp"
	"strconv"

	"github.com/weir-zk/weir/plugins/filecoin/gadgets"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/errs"
)

// maxCount bounds numbers in ids: what is above fits no evaluation domain.
const maxCount = 1 << 20

// Blank is the circuit of an id with all values zero:
//
//	por-<arity>x<leaves>, por-8-2, por-8-8, por-8-8-2   a leaf in a Poseidon tree; with -pub the root is public
//	por-sha-2x<leaves>                                  a leaf in a binary SHA-256 tree; -pub likewise
//	post-<size>-<sectors>x<challenges>                  PoSt of any shape
//	window-<size>                                       post-<size>-2x10; a whole partition is post-32g-2349x10, post-64g-2300x10
//	winning-<size>                                      post-<size>-66x1
//	porep-<size>, porep-<size>-c<challenges>            one partition of a sealing proof
//	upd-<size>, updp-<size>                             one partition of an update; the Poseidon variant
func Blank(id string) (circuit.Circuit, error) {
	for _, f := range families {
		if m := f.pattern.FindStringSubmatch(id); m != nil {
			a := args{id: id}
			c := f.blank(&a, m[1:])
			if a.err != nil {
				return nil, a.err
			}
			return c, nil
		}
	}
	return nil, unknown(id)
}

func unknown(id string) error {
	return errs.New(errs.NotFound, "filecoin circuit", "no circuit %q", id).
		WithHint("ids are por-8x64, post-2k-1x1, window-32g, winning-32g, porep-32g, porep-32g-c1, upd-32g, updp-32g and the like")
}

// args reads the parts of an id and keeps the first failure.
type args struct {
	id  string
	err error
}

func (a *args) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// count is a number from 1 on.
func (a *args) count(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxCount {
		a.fail(errs.Mismatch(errs.InvalidArgument, "filecoin circuit", a.id, "numbers from 1 to 2^20", s))
		return 1
	}
	return n
}

// size is a sector size; sealed asks for one that can be sealed.
func (a *args) size(name string, sealed bool) *sector.Size {
	s, err := sector.Named(name)
	if err == nil && sealed && s.Layers == 0 {
		err = errs.New(errs.InvalidArgument, "filecoin circuit", "%s: sectors of this size are not sealed", a.id)
	}
	if err != nil {
		a.fail(err)
		return &sector.Sizes[1]
	}
	return s
}

// leaves is a power of the arity.
func (a *args) leaves(s string, arity int) uint64 {
	n := a.count(s)
	for m := n; m > 1; m /= arity {
		if m%arity != 0 {
			a.fail(errs.Mismatch(errs.InvalidArgument, "filecoin circuit", a.id, "a power of "+strconv.Itoa(arity)+" leaves", s))
			break
		}
	}
	return uint64(n)
}

const sizes = `([0-9]+[kmg])`

var families = []struct {
	pattern *regexp.Regexp
	blank   func(a *args, m []string) circuit.Circuit
}{
	{regexp.MustCompile(`^por-([248])x([0-9]+)(-pub)?$`), func(a *args, m []string) circuit.Circuit {
		arity := a.count(m[0])
		return &PoR{Tree: gadgets.PoseidonTree, Private: m[2] == "", Inclusion: blankInclusion(sector.Tree{Base: arity}, a.leaves(m[1], arity))}
	}},
	{regexp.MustCompile(`^por-(8-2|8-8|8-8-2)(-pub)?$`), func(_ *args, m []string) circuit.Circuit {
		tree := map[string]sector.Tree{"8-2": {Base: 8, Sub: 2}, "8-8": {Base: 8, Sub: 8}, "8-8-2": {Base: 8, Sub: 8, Top: 2}}[m[0]]
		return &PoR{Tree: gadgets.PoseidonTree, Private: m[1] == "", Inclusion: blankInclusion(tree, uint64(64*tree.Sub*max(1, tree.Top)))}
	}},
	{regexp.MustCompile(`^por-sha-2x([0-9]+)(-pub)?$`), func(a *args, m []string) circuit.Circuit {
		return &PoR{Tree: gadgets.SHA256Tree, Private: m[1] == "", Inclusion: blankInclusion(sector.Tree{Base: 2}, a.leaves(m[0], 2))}
	}},
	{regexp.MustCompile(`^post-` + sizes + `-([0-9]+)x([0-9]+)$`), func(a *args, m []string) circuit.Circuit {
		return blankPoSt(a.size(m[0], true), a.count(m[1]), a.count(m[2]))
	}},
	{regexp.MustCompile(`^window-` + sizes + `$`), func(a *args, m []string) circuit.Circuit {
		return blankPoSt(a.size(m[0], true), 2, sector.WindowChallenges)
	}},
	{regexp.MustCompile(`^winning-` + sizes + `$`), func(a *args, m []string) circuit.Circuit {
		return blankPoSt(a.size(m[0], true), sector.WinningChallenges, 1)
	}},
	{regexp.MustCompile(`^porep-` + sizes + `(?:-c([0-9]+))?$`), func(a *args, m []string) circuit.Circuit {
		s := a.size(m[0], true)
		n := s.Challenges
		if m[1] != "" {
			n = a.count(m[1])
		}
		return blankPoRep(s, n)
	}}, {regexp.MustCompile(`^(upd|updp)-` + sizes + `$`), func(a *args, m []string) circuit.Circuit {
		return blankUpdate(a.size(m[1], false), m[0] == "updp")
	}},
}
