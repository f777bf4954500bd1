package spec_test

import (
	"os"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/carrying"
	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

func TestMain(m *testing.M) {
	carrying.Main()
	becomeWithoutLandlock()
	injecting()
	if probed() {
		os.Exit(1)
	}
	code := m.Run()
	yard.Clean()
	carrying.Clean()
	os.Exit(code)
}
