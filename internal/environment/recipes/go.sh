# The module cache: the modules of go.mod, and those that only tests need.
src=$tmp/src
cp -R "$BAILEY_SRC/." "$src"
cd "$src"
mkdir -p "$out/mod" "$out/bin"
export GOMODCACHE="$out/mod" GOCACHE="$tmp/cache" GOTMPDIR="$tmp" GOBIN="$out/bin" GOENV=off
go mod download
# What builds is looked at, for modules that are asked for later than go.mod
# says; what does not build yet is the project's business.
go list -test -deps ./... >/dev/null || true
for package in "$@"; do
	case $package in
	*@*) ;;
	*) package=$package@latest ;;
	esac
	go install "$package"
done
