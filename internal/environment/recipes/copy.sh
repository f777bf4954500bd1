# Copies the committed state of the folder it starts in to $BAILEY_OUT/src, as
# it is in the repository: nothing is filtered, replaced or left out by what the
# repository's own settings and attributes say. It runs without a network.
set -eu
commit=$(git rev-parse --verify --quiet 'HEAD^{commit}') || { echo 'there is no commit yet: git commit first' >&2; exit 1; }
prefix=$(git rev-parse --show-prefix)
objects=$(cd "$(git rev-parse --git-path objects)" && pwd -P)
format=$(git rev-parse --show-object-format 2>/dev/null || echo sha1)
bare=/tmp/copy.git
git init -q --bare --template= --object-format="$format" "$bare"
mkdir -p "$bare/info" "$bare/objects/info" "$BAILEY_OUT/src"
printf '%s\n' "$objects" >"$bare/objects/info/alternates"
printf '* -export-ignore -export-subst -text -eol -ident -filter -working-tree-encoding\n' >"$bare/info/attributes"
GIT_NO_LAZY_FETCH=1 git --git-dir="$bare" archive --format=tar --output="$BAILEY_OUT/src.tar" "$commit:${prefix%/}"
tar -x --no-same-owner -f "$BAILEY_OUT/src.tar" -C "$BAILEY_OUT/src"
rm "$BAILEY_OUT/src.tar"
printf '%s\n' "$commit" >"$BAILEY_OUT/commit"
printf '%s\n' "$prefix" >"$BAILEY_OUT/prefix"
: >"$BAILEY_OUT/tools"
for tool in $BAILEY_TOOLS; do
	command -v "$tool" >/dev/null || { echo "$tool is not there: the environment cannot be built without it" >&2; exit 127; }
	case $tool in
	go) version=$(go version) ;;
	*) version="$tool $("$tool" --version)" ;;
	esac
	printf '%s\n' "$version" | head -n 1 >>"$BAILEY_OUT/tools"
done
