//go:build deps

// Package deps names modules that later packages import.
package deps

import (
	_ "github.com/BurntSushi/toml"
	_ "github.com/cockroachdb/datadriven"
	_ "github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"
	_ "github.com/dustin/go-humanize"
	_ "github.com/hashicorp/go-hclog"
	_ "github.com/hashicorp/go-plugin"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/schollz/progressbar/v3"
	_ "github.com/tetratelabs/wazero"
	_ "github.com/urfave/cli/v2"
	_ "golang.org/x/crypto/blake2b"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "google.golang.org/grpc"
	_ "google.golang.org/grpc/health"
	_ "google.golang.org/protobuf/proto"
	_ "pgregory.net/rapid"
)
