/** What something wrote: a log, an answer, a table, a file. */
export interface Written {
  readonly where: string;
  readonly bytes: Buffer;
}

/** So much of the middle of a secret is none of its hint, and no chance. */
const PIECE = 14;

/** Where any of the secrets can be read, as it is or in hex, base64 or as part of a URL; each as `secret in where`. */
export function tracesOf(secrets: Readonly<Record<string, string>>, written: readonly Written[]): string[] {
  return Object.entries(secrets).flatMap(([name, secret]) => {
    const forms = formsOf(middleOf(secret));
    return written
      .filter(({ bytes }) => forms.some((form) => bytes.includes(form)))
      .map(({ where }) => `${name} in ${where}`);
  });
}

function middleOf(secret: string): string {
  if (secret.length < PIECE) throw new Error('too short to be told from chance');
  const start = Math.floor((secret.length - PIECE) / 2);
  return secret.slice(start, start + PIECE);
}

function formsOf(text: string): Buffer[] {
  const bytes = Buffer.from(text);
  // In base64, how bytes look depends on what stands before and behind them: so the same without its ends, thrice.
  const inBase64 = [0, 1, 2].map((before) =>
    Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .slice(before === 0 ? 0 : before + 1, -4),
  );
  const forms = [
    text,
    encodeURIComponent(text),
    bytes.toString('hex'),
    ...inBase64,
    ...inBase64.map((form) => form.replaceAll('+', '-').replaceAll('/', '_')),
  ];
  return [...new Set(forms)].map((form) => Buffer.from(form));
}
