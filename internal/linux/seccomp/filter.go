package seccomp

import (
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// filter decides about system calls. The zero filter refuses all of them.
type filter struct {
	rules  []rule // one a call
	others bool   // calls that no rule names are let through
	deadly bool   // a call of another architecture's ends the process, in place of failing
}

// rule is about one system call, which is let through when any of the
// conditions holds.
type rule struct {
	call   uintptr
	when   []condition
	invert bool          // it is refused when any of the conditions holds, and let through else
	absent bool          // where it is refused, it fails as if this kernel had no such call
	errno  syscall.Errno // or with this; zero is EPERM
}

// condition holds when all its arguments do; an empty one always does.
type condition []argument

// argument compares the lower half of one: what is looked at here are numbers
// of 32 bits, of which the kernel ignores the rest. What a pointer leads to a
// filter cannot see.
type argument struct {
	index       uint32
	mask, value uint32
}

// whole is the mask of an argument that is compared as it is.
const whole = 0xffffffff

func is(index, value uint32) argument { return argument{index, whole, value} }

// always lets calls through.
func always(calls ...uintptr) []rule {
	var list []rule
	for _, c := range calls {
		list = append(list, rule{call: c, when: []condition{{}}})
	}
	return list
}

// never refuses calls.
func never(calls ...uintptr) []rule {
	var list []rule
	for _, c := range calls {
		list = append(list, rule{call: c})
	}
	return list
}

// absent refuses calls as if this kernel had none of them.
func absent(calls ...uintptr) []rule {
	list := never(calls...)
	for i := range list {
		list[i].absent = true
	}
	return list
}

// unless refuses a call when one of the conditions holds.
func unless(call uintptr, when ...condition) rule { return rule{call: call, when: when, invert: true} }

// only lets a call through when one of the conditions holds.
func only(call uintptr, when ...condition) rule { return rule{call: call, when: when} }

// Where struct seccomp_data has what (linux/seccomp.h); both architectures are
// little-endian.
const (
	offCall = 0
	offArch = 4
	offArgs = 16
	word    = 4
)

// x32 marks calls of the x32 ABI, which have the architecture of the others
// (seccomp(2)). No number of another is as large.
const x32 = 0x40000000

// newest is the last system call that these lists know. A later one is refused
// as if this kernel did not have it: who tries it has another way.
const newest = unix.SYS_RSEQ_SLICE_YIELD

func allow() bpf.Instruction { return bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW} }

func refuse(errno syscall.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

func kill() bpf.Instruction { return bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS} }

func load(offset uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offset, Size: word} }

// program is the filter as the kernel runs it, instruction by instruction.
func (f filter) program() []bpf.Instruction {
	foreign := refuse(unix.EPERM)
	if f.deadly {
		foreign = kill()
	}
	p := []bpf.Instruction{
		load(offArch),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: architecture, SkipTrue: 1},
		foreign,
		load(offCall),
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: x32, SkipFalse: 1},
		foreign,
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: newest, SkipFalse: 1},
		refuse(unix.ENOSYS),
	}
	for _, r := range f.rules {
		body := r.program()
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(r.call), SkipFalse: uint8(len(body))})
		p = append(p, body...)
	}
	if f.others {
		return append(p, allow())
	}
	return append(p, refuse(unix.EPERM))
}

// program is what is done about the call itself. It does not end without an
// answer.
func (r rule) program() []bpf.Instruction {
	met, last := allow(), r.refusal()
	if r.invert {
		met, last = last, met
	}
	var p []bpf.Instruction
	for _, c := range r.when {
		if len(c) == 0 {
			return []bpf.Instruction{met}
		}
		one := []bpf.Instruction{met}
		for _, a := range slices.Backward(c) { // an argument that is another leads to the end of the condition
			one = slices.Concat(a.program(uint8(len(one))), one)
		}
		p = append(p, one...)
	}
	return append(p, last)
}

func (r rule) refusal() bpf.Instruction {
	switch {
	case r.absent:
		return refuse(unix.ENOSYS)
	case r.errno != 0:
		return refuse(r.errno)
	}
	return refuse(unix.EPERM)
}

// program goes on with the next instruction where the argument is as it has to
// be, and else passes over that many.
func (a argument) program(skip uint8) []bpf.Instruction {
	p := []bpf.Instruction{load(offArgs + 2*word*a.index)}
	if a.mask != whole {
		p = append(p, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: a.mask})
	}
	return append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: a.value, SkipFalse: skip})
}

// assemble returns the filter in the kernel's form.
func (f filter) assemble() ([]unix.SockFilter, error) {
	seen := map[uintptr]bool{}
	for _, r := range f.rules {
		if seen[r.call] {
			return nil, fmt.Errorf("two rules about system call %d", r.call)
		}
		seen[r.call] = true
	}
	raw, err := bpf.Assemble(f.program())
	if err != nil {
		return nil, fmt.Errorf("assemble filter of system calls: %w", err)
	}
	list := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		list[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return list, nil
}
