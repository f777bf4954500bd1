package hide

// Defaults are the patterns of names that files have which usually hold a secret and that a
// developer has beside their code. Names under which certificates of others lie
// are not among them: programs verify with these. Nor is .envrc, which is a
// program: what a run leaves in it is pointed out.
func Defaults() []string {
	return []string{
		// settings with secrets
		".env", ".env.*", "*.env",
		"secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml", ".secrets", "local.settings.json",
		// private keys
		"id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk",
		"*.key", "*key.pem", "private*.pem", "privkey*.pem", "*.ppk", "*.p8", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ovpn",
		// logins of tools
		".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".pgpass", ".my.cnf", ".dockercfg", ".docker/config.json",
		".vault-token", ".vault_pass", ".vault_pass.*", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
		// clouds
		".aws/credentials", ".aws/config", "*credentials.json", "client_secret*.json", "service-account*.json", "service_account*.json", "serviceaccount*.json",
		".kube/config", "kubeconfig", "*.kubeconfig", "*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json",
		// the short names of some of them on a FAT file system
		"env~?", "env~?.*", "id_ed2~?", "netrc~?", "npmrc~?", "pypirc~?", "git-cr~?", "creden~?*", "terraf~?.tfs*",
	}
}

// Harmless are those among them that say how the others are to be written.
func Harmless() []string {
	return []string{
		"*.example", "*.sample", "*.template", "*.tmpl", "*.dist", ".env.default", ".env.defaults", ".env.schema",
		"example.env", "sample.env", "template.env", "*.example.env", "*.sample.env", "*.template.env",
		"example.tfvars", "*.example.tfvars",
	}
}
