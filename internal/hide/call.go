package hide

// Call is the number of a prctl(2) that only a sandbox's kernel knows, and only
// its first process may make, once and before it has started another: it hands
// over the rules for one mount. Its arguments are the address of the mount's
// path and of the rules (Text), each followed by a length. Linux has no option
// of this number and answers EINVAL.
const Call = 0x62616c79
