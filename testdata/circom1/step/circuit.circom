// circom 1: private inputs are marked, the others are public. Two components and an assertion.
template Step() {
    signal input x;
    signal input y;
    signal output z;
    assert(y > 2);
    z <== x * y + 3;
    x * (x - 1) === 0;
}
template Main() {
    signal input s[2];
    signal private input m[2][2];
    signal output out;
    signal t;
    component st = Step();
    st.x <== s[0];
    st.y <== s[1];
    t <== m[0][0] * m[0][1] + st.z;
    out <== (m[1][0] - m[1][1]) * t;
}
component main = Main();
