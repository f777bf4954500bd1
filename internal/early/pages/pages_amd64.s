#include "textflag.h"

// func madvise(addr, length, advice uintptr) uintptr
TEXT ·madvise(SB), NOSPLIT, $0-32
	MOVQ addr+0(FP), DI
	MOVQ length+8(FP), SI
	MOVQ advice+16(FP), DX
	MOVQ $28, AX // SYS_madvise
	SYSCALL
	MOVQ AX, ret+24(FP)
	RET

// func sections() (text, etext, rodata, erodata uintptr)
TEXT ·sections(SB), NOSPLIT, $0-32
	MOVQ $runtime·text(SB), AX
	MOVQ AX, text+0(FP)
	MOVQ $runtime·etext(SB), AX
	MOVQ AX, etext+8(FP)
	MOVQ $runtime·rodata(SB), AX
	MOVQ AX, rodata+16(FP)
	MOVQ $runtime·erodata(SB), AX
	MOVQ AX, erodata+24(FP)
	RET
