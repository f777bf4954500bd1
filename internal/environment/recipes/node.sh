# The packages of package.json, where Node finds them. Scripts run.
cp -R "$BAILEY_SRC/." "$out"
cd "$out"
rm -rf node_modules
printf '%s\n' "$BAILEY_NPMRC" >"$tmp/npmrc"
export npm_config_userconfig="$tmp/npmrc" npm_config_cache="$tmp/cache" npm_config_audit=false npm_config_fund=false \
	npm_config_update_notifier=false npm_config_progress=false npm_config_fetch_retries=2 npm_config_include=dev
if [ -f package-lock.json ] || [ -f npm-shrinkwrap.json ]; then
	npm ci
else
	npm install --no-package-lock
fi
if [ $# -gt 0 ]; then
	npm install --no-save --no-package-lock "$@"
fi
mkdir -p node_modules
# Packages that are folders of the repository lead to where that is; the copy
# that they were installed from goes.
node -e '
const fs = require("fs"), path = require("path"), [out, repo] = process.argv.slice(1);
const top = path.join(out, "node_modules");
for (const name of fs.readdirSync(top)) {
	const names = name.startsWith("@") && fs.lstatSync(path.join(top, name)).isDirectory() ? fs.readdirSync(path.join(top, name)).map((n) => name + "/" + n) : [name];
	for (const n of names) {
		const at = path.join(top, n);
		if (!fs.lstatSync(at).isSymbolicLink()) continue;
		const to = path.resolve(path.dirname(at), fs.readlinkSync(at));
		if (!to.startsWith(out + "/") || to.startsWith(top + "/")) continue;
		fs.unlinkSync(at);
		fs.symlinkSync(path.join(repo, path.relative(out, to)), at);
		const own = path.join(to, "node_modules");
		if (fs.existsSync(own)) console.log("note: " + n + " has packages of its own in " + path.relative(out, own) + ", which are left out");
	}
}' "$out" "$BAILEY_REPO"
cd /
find "$out" -mindepth 1 -maxdepth 1 ! -name node_modules -exec rm -rf {} +
