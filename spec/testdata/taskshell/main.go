// Command taskshell stands for an agent: it takes its task for a script of the
// shell, so that what a test writes as the task is what the agent does.
package main

import (
	"fmt"
	"os"
	"syscall"
)

func main() {
	err := syscall.Exec("/bin/sh", []string{"sh", "-s"}, os.Environ())
	fmt.Println("exec:", err)
	os.Exit(1)
}
