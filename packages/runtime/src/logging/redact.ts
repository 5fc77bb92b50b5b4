const REDACTED = '[redacted]';

/** Each runs in linear time. The first group is kept. */
const SECRETS: readonly RegExp[] = [
  // A PEM block, also if it is cut off.
  /(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)[^-]*(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?/g,
  // Our keys, and those of most vendors.
  /\b((?:sk|pk|rk)[-_])[A-Za-z0-9_-]{12,}/g,
  /\b(gsk_|xai-|hf_|r8_|pplx-|glpat-|xox[abeprs]-|gh[opsru]_|github_pat_|AIza|A[KS]IA)[A-Za-z0-9_-]{12,}/g,
  /\b(eyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*/g,
  /\b((?:bearer|basic)\s{1,4})(?=[A-Za-z._~+/-]{0,500}[0-9=])[A-Za-z0-9._~+/=-]{8,}/gi,
  // In a URL: scheme://user:password@host
  /\b([a-z][a-z0-9+.-]{1,20}:\/\/[^\s:@/]{0,200}:)[^\s@/]{1,200}(?=@)/gi,
  // A value named as a secret: password=…, "api_key": "…"
  /((?:passw(?:or)?d|passphrase|secret|token|api[-_ ]?key|credential|authorization)["']?\s{0,4}[:=]\s{0,4}["']?)[^\s"',;&}]{6,}/gi,
];

/** Replaces what looks like a credential: a second line of defence, since none should get here. */
export function redactSecrets(text: string): string {
  let redacted = text;
  for (const secret of SECRETS) redacted = redacted.replace(secret, `$1${REDACTED}`);
  return redacted;
}
