package spec_test

import (
	"os"
	"testing"

	"github.com/bailey-dev/bailey/internal/testkit/yard"
)

func TestMain(m *testing.M) {
	code := m.Run()
	yard.Clean()
	os.Exit(code)
}
