package circom

import "github.com/weir-zk/weir/sdk/errs"

const preparedMagic = "weirkey\x00"

func openPrepared(src *source) (*matrices, error) {
	return nil, errs.New(errs.Unsupported, "open", "prepared keys").WithPath(src.name)
}
