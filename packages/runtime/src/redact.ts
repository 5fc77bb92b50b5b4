/** What stands where a secret was. */
const REDACTED = '[redacted]';

/** Each is linear in what it reads, and keeps what its first group found. */
const SECRETS: readonly RegExp[] = [
  // A block of PEM, also one that was cut off.
  /(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g,
  // Ours, and those of most vendors.
  /\b((?:sk|pk|rk)[-_])[A-Za-z0-9_-]{12,}/g,
  /\b(gsk_|xai-|hf_|r8_|pplx-|glpat-|xox[abeprs]-|gh[opsru]_|github_pat_|AIza|A[KS]IA)[A-Za-z0-9_-]{12,}/g,
  /\b(eyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*/g,
  /\b((?:bearer|basic)\s{1,4})(?=[A-Za-z._~+/-]{0,500}[0-9=])[A-Za-z0-9._~+/=-]{8,}/gi,
  // In an address: scheme://user:password@host
  /\b([a-z][a-z0-9+.-]{1,20}:\/\/[^\s:@/]{0,200}:)[^\s@/]{1,200}(?=@)/gi,
  // What says of itself that it is one: password=…, "api_key": "…"
  /((?:passw(?:or)?d|passphrase|secret|token|api[-_ ]?key|credential|authorization)["']?\s{0,4}[:=]\s{0,4}["']?)[^\s"',;&}]{6,}/gi,
];

/** A text without what looks like a credential: a second line of defence, as none is to get where this is used. */
export function redactSecrets(text: string): string {
  let redacted = text;
  for (const secret of SECRETS) redacted = redacted.replace(secret, `$1${REDACTED}`);
  return redacted;
}
