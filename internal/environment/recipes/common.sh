# What every kind begins with: the sources as a copy that install scripts may
# write to, temporary files on the disk in place of memory, the machine's roots
# of trust for programs that bring their own.
set -eu
out=$BAILEY_OUT
tmp=$out/.tmp
mkdir -p "$tmp"
export TMPDIR="$tmp"
for roots in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
	if [ -f "$roots" ]; then
		export PIP_CERT="$roots" NODE_EXTRA_CA_CERTS="$roots" SSL_CERT_FILE="$roots" REQUESTS_CA_BUNDLE="$roots"
		break
	fi
done
