/* The border between weir's Go code and libweir_cuda.so: C, fixed layouts, no callback, no exception.
 *
 * Calls. Every function takes one pointer to its own struct and returns nothing. A struct begins with a weir_cuda_call: the caller writes size, the
 * library writes the rest of it. All numbers have fixed widths; addresses, of device and host memory alike, are uint64_t. Fields that are not marked
 * out are in. Unused and reserved fields are zero.
 *
 * Memory. The library allocates device memory in weir_cuda_alloc only (what the CUDA runtime itself takes at weir_cuda_open is told there). Whatever a
 * step needs beside its operands it takes from the scratch that the caller gives it, sized by weir_cuda_sizes. So the caller's ledger knows every byte.
 *
 * Lanes. A device has lanes: proofs in flight. A lane has two queues, COPY (uploads) and WORK (everything else), each in order. A call that enqueues returns a
 * ticket, a number of its queue from 1 on; its field after makes it wait, on the device, for a ticket of the lane's other queue (0: none). Nothing is waited
 * for on the host but in weir_cuda_wait, though a step may block while it needs figures of its own from the device. Calls of one lane must not run at the same
 * time; calls of different lanes may, from any thread. Calls without a lane (open, alloc, register ...) may run at any time.
 *
 * Errors. call.code says what went wrong and call.text tells it to a person. sticky: the device's state in this process is lost and every later call will
 * fail; only the end of the process helps. A step that was enqueued may fail later: then the weir_cuda_wait of its ticket, or of a later one, says so. An
 * error never leaves a result that looks right: results are valid after a wait that returned WEIR_CUDA_OK.
 *
 * Field elements are 32 (Fr) and 48 bytes (Fp), little-endian limbs in Montgomery form (R = 2^256, 2^384), canonical: gnark-crypto's memory. Points are affine,
 * 96 and 192 bytes, infinity all zero. N = 2^log_n; w is the N-th root of unity of the generator 7, u the one of order 2N. Vectors are in natural order.
 */
#ifndef WEIR_CUDA_H
#define WEIR_CUDA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_CUDA_ABI 1u

#if defined(_WIN32)
#define WEIR_CUDA_EXPORT __declspec(dllexport)
#else
#define WEIR_CUDA_EXPORT __attribute__((visibility("default")))
#endif

enum {
	WEIR_CUDA_OK = 0,
	WEIR_CUDA_INVALID = 1,       /* an argument that can never work */
	WEIR_CUDA_UNSUPPORTED = 2,   /* a valid wish that this build or device cannot fulfil */
	WEIR_CUDA_NO_DEVICE = 3,     /* no such GPU, or none at all */
	WEIR_CUDA_NO_DRIVER = 4,     /* no driver, or one too old for this library */
	WEIR_CUDA_OUT_OF_MEMORY = 5, /* of the device, or of what can be pinned */
	WEIR_CUDA_DEVICE_ERROR = 6,  /* a call or a kernel failed; see device_code and sticky */
	WEIR_CUDA_INTERNAL = 7       /* a promise broken inside the library */
};

typedef struct weir_cuda_call {
	uint32_t size;       /* bytes of the whole struct that begins here */
	int32_t code;        /* out: WEIR_CUDA_... */
	int32_t device_code; /* out: cudaError_t, 0 where there is none */
	uint32_t sticky;     /* out: 1: this process can use the device no more */
	char text[240];      /* out: NUL-terminated, empty when code is OK */
} weir_cuda_call;

/* weir_cuda_abi: who the library is. Needs no driver. The layout of this struct up to sizes is the same in every version. */
typedef struct weir_cuda_abi_args {
	weir_cuda_call call;
	uint32_t version;         /* out: WEIR_CUDA_ABI */
	uint32_t nb_sizes;        /* out */
	uint32_t sizes[32];       /* out: sizeof of the structs, in the order of this file, weir_cuda_call first */
	uint32_t runtime_version; /* out: 13000 for CUDA 13.0; 0: not CUDA (the test library) */
	uint32_t nb_archs;        /* out */
	uint32_t archs[16];       /* out: 90 for sm_90, what there is machine code for */
	uint32_t ptx;             /* out: the architecture there is PTX for, which newer ones can run; 0: none */
	uint32_t debug_sync;      /* out: 1: every launch is waited for */
	char build[128];          /* out: for people */
} weir_cuda_abi_args;

/* weir_cuda_devices: the GPUs this process may use, without a context on any of them. */
typedef struct weir_cuda_device {
	uint8_t uuid[16];
	char name[128];
	char pci[32];
	uint64_t memory; /* bytes */
	uint32_t arch;   /* 90 for compute capability 9.0 */
	uint32_t multiprocessors;
	uint32_t usable; /* 1: there is code for it */
	uint32_t reserved;
} weir_cuda_device;

typedef struct weir_cuda_devices_args {
	weir_cuda_call call;
	uint32_t driver_version; /* out: as runtime_version, what the driver can do; 0: no driver */
	uint32_t nb_devices;     /* out: all there are, also when there is no room for them */
	uint64_t devices;        /* host: weir_cuda_device[room] */
	uint32_t room;
	uint32_t device_size; /* sizeof(weir_cuda_device) */
} weir_cuda_devices_args;

/* weir_cuda_open: takes a GPU. The handle is good until weir_cuda_close. */
typedef struct weir_cuda_open_args {
	weir_cuda_call call;
	uint8_t uuid[16];     /* in: which; the answer has that of the device really opened */
	uint32_t lanes;       /* 1 to 32 */
	uint32_t flags;       /* 0 */
	uint64_t device;      /* out: handle */
	uint64_t memory;      /* out: bytes of the device */
	uint64_t memory_free; /* out: after opening */
	uint32_t arch;        /* out */
	uint32_t reserved;
} weir_cuda_open_args;

/* weir_cuda_close, weir_cuda_memory, weir_cuda_counters: of an open device. Closing frees what was allocated and unpins what was registered. */
typedef struct weir_cuda_device_args {
	weir_cuda_call call;
	uint64_t device;
	uint64_t memory;      /* out of memory: bytes of the device */
	uint64_t memory_free; /* out of memory: for all processes, now */
	uint64_t allocated;   /* out of memory: by weir_cuda_alloc, alive */
	uint64_t registered;  /* out of memory: host bytes pinned */
	/* out of counters: launches since open. A proof that left one at zero was not made on this device. */
	uint64_t launches_ntt, launches_g1, launches_g2, launches_spmv, launches_witness, launches_fixed_base;
} weir_cuda_device_args;

/* weir_cuda_alloc, weir_cuda_free: plain device memory, aligned to 256 bytes, not cleared. */
typedef struct weir_cuda_memory_args {
	weir_cuda_call call;
	uint64_t device;
	uint64_t bytes;   /* of alloc */
	uint64_t address; /* out of alloc, in of free */
} weir_cuda_memory_args;

/* weir_cuda_register, weir_cuda_unregister: pins host memory, so that copies from it run beside kernels. */
typedef struct weir_cuda_register_args {
	weir_cuda_call call;
	uint64_t device;
	uint64_t address; /* host, of a page */
	uint64_t bytes;   /* of register */
} weir_cuda_register_args;

/* weir_cuda_upload (queue COPY), weir_cuda_download, weir_cuda_clear (queue WORK). The host side of a copy must stay as it is until the ticket is done. An
 * upload from memory that is not registered is done, as far as the host's memory is concerned, when the call returns. */
typedef struct weir_cuda_copy_args {
	weir_cuda_call call;
	uint64_t device;
	uint32_t lane;
	uint32_t reserved;
	uint64_t after;
	uint64_t ticket; /* out */
	uint64_t to;     /* device; of download host */
	uint64_t from;   /* host; of download device; not of clear */
	uint64_t bytes;
} weir_cuda_copy_args;

enum { WEIR_CUDA_QUEUE_WORK = 0, WEIR_CUDA_QUEUE_COPY = 1 };

/* weir_cuda_wait: blocks until a ticket of a queue is done (0: all there are), or only asks. */
typedef struct weir_cuda_wait_args {
	weir_cuda_call call;
	uint64_t device;
	uint32_t lane;
	uint32_t queue;
	uint64_t ticket;
	uint32_t poll; /* 1: do not block */
	uint32_t done; /* out */
} weir_cuda_wait_args;

/* weir_cuda_sizes: the scratch of steps, in bytes; arithmetic. A zero input asks for nothing. */
typedef struct weir_cuda_sizes_args {
	weir_cuda_call call;
	uint64_t device;
	uint32_t log_n;      /* of tables and quotient */
	uint32_t has_domain; /* 1: log_n counts */
	uint64_t g1_points;  /* most in one weir_cuda_msm */
	uint64_t g2_points;
	uint64_t wires;  /* of the witness */
	uint64_t listed; /* values of its list, at most */
	uint64_t rows;   /* most in one weir_cuda_evaluate */
	uint64_t terms;
	uint64_t coeffs; /* of its dictionary */
	uint64_t fixed_g1; /* scalars in one weir_cuda_fixed_base */
	uint64_t fixed_g2;
	uint64_t tables_bytes;     /* out: of weir_cuda_tables, kept while the domain is used */
	uint64_t quotient_bytes;   /* out: scratch of weir_cuda_quotient */
	uint64_t g1_bytes;         /* out: scratch of weir_cuda_msm */
	uint64_t g2_bytes;         /* out */
	uint64_t classes_bytes;    /* out: what weir_cuda_witness keeps for the sums of this witness */
	uint64_t witness_bytes;    /* out: scratch of weir_cuda_witness */
	uint64_t evaluate_bytes;   /* out: scratch of weir_cuda_evaluate */
	uint64_t fixed_base_bytes; /* out: scratch of weir_cuda_fixed_base, the table of multiples included */
} weir_cuda_sizes_args;

/* weir_cuda_tables: fills a block with what transforms of size N need. */
typedef struct weir_cuda_tables_args {
	weir_cuda_call call;
	uint64_t device;
	uint32_t lane;
	uint32_t log_n;
	uint64_t after;
	uint64_t ticket; /* out */
	uint64_t tables; /* device */
	uint64_t tables_bytes;
} weir_cuda_tables_args;

/* weir_cuda_witness: makes the scalars of all variables of an uploaded assignment (sdk/assignment), and sorts them by what they cost. Dense: list has all wires and is
 * not copied: scalars = list is allowed. Compact: variable i is bit i of value where bit i of is_bit is set, else the next of list; rank[k] is the number of
 * listed values before variable 512 k. */
typedef struct weir_cuda_witness_args {
	weir_cuda_call call;
	uint64_t device;
	uint32_t lane;
	uint32_t compact; /* 0: dense */
	uint64_t after;
	uint64_t ticket; /* out */
	uint64_t wires;
	uint64_t listed;
	uint64_t is_bit; /* device: uint64[ceil(wires/64)], compact only; bits beyond wires are unspecified */
	uint64_t value;  /* device: the same */
	uint64_t rank;   /* device: uint32[ceil(wires/512)] */
	uint64_t list;   /* device: Fr[listed] */
	uint64_t scalars; /* device: Fr[wires] */
	uint64_t classes; /* device */
	uint64_t classes_bytes;
	uint64_t scratch; /* device */
	uint64_t scratch_bytes;
} weir_cuda_witness_args;

enum { WEIR_CUDA_ROWS_SEVEN = 0, WEIR_CUDA_ROWS_FIVE = 1 };

/* weir_cuda_evaluate: out[position(first_row + i)] = row i of a matrix times the scalars, for a run of its rows. position(i) is i, or for ROWS_FIVE
 * 3797895509 i mod N. Rows that no call writes are the caller's to clear. extra > 0 adds the rows first_row + rows + j = scalar j, j < extra, behind. */
typedef struct weir_cuda_evaluate_args {
	weir_cuda_call call;
	uint64_t device;
	uint32_t lane;
	uint32_t log_n;
	uint64_t after;
	uint64_t ticket; /* out */
	uint32_t row_order;
	uint32_t extra;
	uint64_t first_row;
	uint64_t rows;
	uint64_t terms;      /* start[rows] - start[0] */
	uint64_t start;      /* device: uint32[rows + 1]; term k of row i is at start[i] - start[0] + k */
	uint64_t wire;       /* device: uint32[terms] */
	uint64_t coeff;      /* device: uint32[terms], indexes into coeffs */
	uint64_t coeffs;     /* device: Fr[nb_coeffs]; the first is one */
	uint64_t nb_coeffs;
	uint64_t scalars;    /* device: Fr[] of weir_cuda_witness */
	uint64_t classes;    /* device: of the same */
	uint64_t out;        /* device: Fr[N] */
	uint64_t scratch;
	uint64_t scratch_bytes;
} weir_cuda_evaluate_args;

enum { WEIR_CUDA_H_MONOMIAL = 0, WEIR_CUDA_H_ODD_COSET = 1 };

/* weir_cuda_quotient: from a, b, c, the values on w^i of three polynomials, the scalars of the H points, in a; b and c are spoiled. P = a b - c.
 *   H_ODD_COSET  the N values P(u w^j)
 *   H_MONOMIAL   the N coefficients of h = P / (X^N - 1); the last is zero
 * remainder gets what is zero for a satisfying witness: the coefficient of X^(N-1) of h, up to a factor that is not zero. c = 0 (no address): c = a b. */
typedef struct weir_cuda_quotient_args {
	weir_cuda_call call;
	uint64_t device;
	uint32_t lane;
	uint32_t log_n; /* 0 to 28 */
	uint64_t after;
	uint64_t ticket; /* out */
	uint32_t basis;
	uint32_t product; /* 1: c has room only, and is made as a b */
	uint64_t a, b, c; /* device: Fr[N] each */
	uint64_t tables;
	uint64_t remainder; /* device: Fr */
	uint64_t scratch;
	uint64_t scratch_bytes;
} weir_cuda_quotient_args;

enum { WEIR_CUDA_SCALARS_DENSE = 0, WEIR_CUDA_SCALARS_WITNESS = 1 };

/* A sum comes in parts that the caller adds up: a point, and windows, of which number w counts 2^(window_bits w) fold. Putting them together is 254 doublings one after
 * another, a tenth of a millisecond for a processor and ten times that for a GPU. */
#define WEIR_CUDA_MSM_WINDOWS 64u

/* weir_cuda_msm: the sum of scalar(i) P_i. scalar(i) is scalars[index[i]], or scalars[first + i] where there is no index. With SCALARS_WITNESS scalars and classes
 * are those of weir_cuda_witness and most values are cheap; with SCALARS_DENSE none is. */
typedef struct weir_cuda_msm_args {
	weir_cuda_call call;
	uint64_t device;
	uint32_t lane;
	uint32_t group; /* 1: G1, 2: G2 */
	uint64_t after;
	uint64_t ticket; /* out */
	uint64_t points; /* device: affine, finite or infinity */
	uint64_t nb_points;
	uint64_t scalars; /* device: Fr[] */
	uint64_t index;   /* device: uint32[nb_points], ascending, or 0 */
	uint64_t first;
	uint32_t kind;
	uint32_t reserved;
	uint64_t classes;    /* device, or 0 */
	/* device: an affine point, then room for WEIR_CUDA_MSM_WINDOWS points of four coordinates X, Y, ZZ, ZZZ with x = X/ZZ and y = Y/ZZZ; ZZ = 0 at infinity */
	uint64_t result;
	uint64_t scratch;
	uint64_t scratch_bytes;
	uint64_t scratch_used; /* out: bytes from the begin of scratch that are or will be written */
	uint32_t windows;      /* out: at most WEIR_CUDA_MSM_WINDOWS, may be 0 */
	uint32_t window_bits;  /* out */
} weir_cuda_msm_args;

/* weir_cuda_fixed_base: points[i] = scalars[i] base, affine: for development keys. */
typedef struct weir_cuda_fixed_base_args {
	weir_cuda_call call;
	uint64_t device;
	uint32_t lane;
	uint32_t group;
	uint64_t after;
	uint64_t ticket;  /* out */
	uint64_t base;    /* device: affine, finite; with make_table */
	uint64_t scalars; /* device: Fr[nb_scalars] */
	uint64_t nb_scalars;
	uint64_t points;  /* device: affine[nb_scalars] */
	uint32_t make_table; /* 1: scratch gets the table of base first; 0: it has it from a call before */
	uint32_t reserved;
	uint64_t scratch;
	uint64_t scratch_bytes;
} weir_cuda_fixed_base_args;

WEIR_CUDA_EXPORT void weir_cuda_abi(weir_cuda_abi_args *);
WEIR_CUDA_EXPORT void weir_cuda_devices(weir_cuda_devices_args *);
WEIR_CUDA_EXPORT void weir_cuda_open(weir_cuda_open_args *);
WEIR_CUDA_EXPORT void weir_cuda_close(weir_cuda_device_args *);
WEIR_CUDA_EXPORT void weir_cuda_memory(weir_cuda_device_args *);
WEIR_CUDA_EXPORT void weir_cuda_counters(weir_cuda_device_args *);
WEIR_CUDA_EXPORT void weir_cuda_alloc(weir_cuda_memory_args *);
WEIR_CUDA_EXPORT void weir_cuda_free(weir_cuda_memory_args *);
WEIR_CUDA_EXPORT void weir_cuda_register(weir_cuda_register_args *);
WEIR_CUDA_EXPORT void weir_cuda_unregister(weir_cuda_register_args *);
WEIR_CUDA_EXPORT void weir_cuda_upload(weir_cuda_copy_args *);
WEIR_CUDA_EXPORT void weir_cuda_download(weir_cuda_copy_args *);
WEIR_CUDA_EXPORT void weir_cuda_clear(weir_cuda_copy_args *);
WEIR_CUDA_EXPORT void weir_cuda_wait(weir_cuda_wait_args *);
WEIR_CUDA_EXPORT void weir_cuda_sizes(weir_cuda_sizes_args *);
WEIR_CUDA_EXPORT void weir_cuda_tables(weir_cuda_tables_args *);
WEIR_CUDA_EXPORT void weir_cuda_witness(weir_cuda_witness_args *);
WEIR_CUDA_EXPORT void weir_cuda_evaluate(weir_cuda_evaluate_args *);
WEIR_CUDA_EXPORT void weir_cuda_quotient(weir_cuda_quotient_args *);
WEIR_CUDA_EXPORT void weir_cuda_msm(weir_cuda_msm_args *);
WEIR_CUDA_EXPORT void weir_cuda_fixed_base(weir_cuda_fixed_base_args *);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CUDA_H */
