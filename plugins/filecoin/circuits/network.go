package circuits

import (
	"context"
	"fmt"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/errs"
)

// Registered are the ids of the circuits whose proofs Filecoin has: for each size of sector those of sealing, window PoSt, winning PoSt and updates, and the Poseidon
// variant of updates.
func Registered() (ids []string) {
	for i := range sector.Sizes {
		s := &sector.Sizes[i]
		if s.Layers > 0 {
			window := fmt.Sprintf("post-%s-%dx%d", s.Name, s.WindowSectors, sector.WindowChallenges)
			if s.WindowSectors == 2 {
				window = "window-" + s.Name
			}
			ids = append(ids, "porep-"+s.Name, window, "winning-"+s.Name)
		}
		ids = append(ids, "upd-"+s.Name, "updp-"+s.Name)
	}
	return ids
}

// RegisteredSizes are the sizes of a registered circuit: nothing is recorded.
func RegisteredSizes(ctx context.Context, id string) (*Sizes, error) {
	density, ok := densities[id]
	if !ok {
		return nil, errs.New(errs.NotFound, "filecoin circuit", "%s is none of the registered circuits", id)
	}
	c, err := Blank(id)
	if err != nil {
		return nil, err
	}
	n, err := circuit.Measure(ctx, c)
	if err != nil {
		return nil, err
	}
	s := newSizes(id, n, density)
	return &s, nil
}

// densities are the auxiliary variables in A, the inputs in B and the auxiliary variables in B, as recording counts them (TestRegistered).
var densities = map[string][3]int{
	"upd-1k":           {1241649, 1, 327403},
	"updp-1k":          {24600, 1, 23667},
	"porep-2k":         {2674908, 1, 685521},
	"window-2k":        {16770, 1, 16028},
	"winning-2k":       {69300, 1, 66792},
	"upd-2k":           {1697189, 1, 444403},
	"updp-2k":          {27930, 1, 26697},
	"porep-4k":         {2773158, 1, 716039},
	"window-4k":        {21510, 1, 20728},
	"winning-4k":       {84942, 1, 82302},
	"upd-4k":           {2155229, 1, 564063},
	"updp-4k":          {35010, 1, 33717},
	"upd-8k":           {2609689, 1, 680063},
	"updp-8k":          {36720, 1, 35247},
	"porep-16k":        {2959930, 1, 766963},
	"window-16k":       {24910, 1, 23808},
	"winning-16k":      {96162, 1, 92466},
	"upd-16k":          {6284882, 1, 1613422},
	"updp-16k":         {78900, 1, 75357},
	"porep-32k":        {3058180, 1, 797481},
	"window-32k":       {29650, 1, 28508},
	"winning-32k":      {111804, 1, 107976},
	"upd-32k":          {6742922, 1, 1733082},
	"updp-32k":         {93060, 1, 89397},
	"porep-8m":         {3814996, 1, 1011289},
	"window-8m":        {49330, 1, 47148},
	"winning-8m":       {176748, 1, 169488},
	"upd-8m":           {9981015, 1, 2567921},
	"updp-8m":          {303016, 1, 289453},
	"porep-16m":        {3913246, 1, 1041807},
	"window-16m":       {54070, 1, 51848},
	"winning-16m":      {192390, 1, 184998},
	"upd-16m":          {10439055, 1, 2687581},
	"updp-16m":         {331824, 1, 318021},
	"porep-512m":       {4385040, 1, 1174173},
	"window-512m":      {65610, 1, 62708},
	"winning-512m":     {230472, 1, 220836},
	"upd-512m":         {57212317, 1, 14916879},
	"updp-512m":        {13752376, 1, 13137301},
	"porep-1g":         {4483290, 1, 1204691},
	"window-1g":        {70350, 1, 67408},
	"winning-1g":       {246114, 1, 236346},
	"upd-1g":           {61151461, 1, 15945955},
	"updp-1g":          {14726584, 1, 14103253},
	"porep-32g":        {129753292, 1, 33112281},
	"post-32g-2349x10": {96179805, 1, 91925766},
	"winning-32g":      {284196, 1, 272184},
	"upd-32g":          {80743581, 1, 20983607},
	"updp-32g":         {17104392, 1, 16340709},
	"porep-64g":        {130637542, 1, 33386943},
	"post-64g-2300x10": {99624500, 1, 95413200},
	"winning-64g":      {299838, 1, 287694},
	"upd-64g":          {84682725, 1, 22012683},
	"updp-64g":         {18078600, 1, 17306661},
}
