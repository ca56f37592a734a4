pragma circom 2.1.6;
// A message, an assertion, a loop as long as an input says, an array of arrays and an unused input: for tests of the witness program.
template Count() {
    signal input n;
    signal output x;
    var s = 0;
    for (var i = 0; i < n; i++) {
        s = s + i;
    }
    x <-- s;
    2 * x === n * (n - 1);
}
template Guard() {
    signal input n;
    signal input m[2][3];
    signal input spare;
    signal output out;
    log("n is", n);
    assert(m[0][0] != 7);
    component c = Count();
    c.n <== n;
    signal t;
    t <== m[0][0] * m[1][2] + m[0][1];
    out <== t * c.x - m[0][2] + m[1][0] - 5 * m[1][1];
}
component main {public [n]} = Guard();
