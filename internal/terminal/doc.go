// Package terminal stands between a hostile program and a person's terminal:
// a filter for what an attached program writes, and Sanitize for one line of
// untrusted text that bailey prints itself.
//
// It never reads or writes a file, holds no unbounded memory, and decides
// nothing about what a program may run. internal/session filters with it;
// whoever prints a name, an argument or a message of the sandbox sanitises
// with it.
//
// The filter assumes a terminal in UTF-8 mode and follows ECMA-48, xterm's
// ctlseqs and the DEC state machine as Paul Williams drew it
// (vt100.net/emu/dec_ansi_parser). It lets through what is named here and
// drops everything else, so a sequence that a terminal invents tomorrow is
// dropped until it is added:
//
//	passed   text (valid UTF-8), BEL, BS, HT, LF, VT, FF, CR, SO, SI
//	passed   cursor movement, erasing, insertion, scrolling, margins, tabs
//	passed   SGR, character sets, cursor shape, full and soft reset
//	passed   private modes: cursor, wrap, origin, alternate screen, mouse,
//	         bracketed paste, focus, synchronized output, in-band resize,
//	         colour scheme reports
//	passed   kitty keyboard protocol, modifyOtherKeys
//	passed   queries whose answer has a fixed form: device attributes,
//	         terminal version, cursor position, modes, sizes, keyboard
//	         flags, colours 4, 10, 11 and 12
//	passed   colours 4, 10, 11, 12 and their reset, prompt marks (OSC 133),
//	         progress (OSC 9;4), hyperlinks to http, https and mailto
//
//	class        dropped, and why
//	clipboard    OSC 52, OSC 5522: reads or replaces the clipboard
//	title        OSC 0, 1, 2, ESC k, title stack and reports: text that a
//	             terminal can be made to type (CVE-2003-0063)
//	answerback   ENQ, DECRQSS, DECRQCRA, XTGETTCAP and other requests whose
//	             answer holds text that the program chose, or what is on
//	             the screen (CVE-2008-2383)
//	transfer     OSC 1337, OSC 5113, APC (kitty graphics reads files),
//	             ZMODEM's opening: files to and from the machine
//	link         hyperlinks to anything else, such as file:
//	notification OSC 9, 99, 777: text outside of the terminal's own area
//	window       resizing, moving, raising, iconifying
//	print        media copy: what is on the screen goes to a printer
//	string       DCS (programmable keys, macros, sixel, pass-through of
//	             multiplexers), PM, SOS
//	c1           8-bit control characters, also as UTF-8: replaced by U+FFFD
//	mode         modes not named above: keyboard lock, 132 columns, VT52,
//	             Tektronix
//	other        every other sequence
//
// What passes can still draw anything inside the terminal, a false prompt
// included, as any program can. After the program has ended, Reset undoes
// what it left on.
package terminal
