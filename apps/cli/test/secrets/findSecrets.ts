/** Something that was written: a log, a response, a table, a file. */
export interface Written {
  readonly where: string;
  readonly bytes: Buffer;
}

/** This many characters from the middle of a secret exclude its hint, and do not occur by chance. */
const PIECE = 14;

/** Finds the secrets, as text or in hex, base64 or URL encoding; each result is `secret in where`. */
export function findSecrets(
  secrets: Readonly<Record<string, string>>,
  written: readonly Written[],
): string[] {
  return Object.entries(secrets).flatMap(([name, secret]) => {
    const forms = formsOf(middleOf(secret));
    return written
      .filter(({ bytes }) => forms.some((form) => bytes.includes(form)))
      .map(({ where }) => `${name} in ${where}`);
  });
}

function middleOf(secret: string): string {
  if (secret.length < PIECE) throw new Error('the secret is too short');
  const start = Math.floor((secret.length - PIECE) / 2);
  return secret.slice(start, start + PIECE);
}

function formsOf(text: string): Buffer[] {
  const bytes = Buffer.from(text);
  // In base64, the encoding depends on the position of the bytes: so all three alignments, without their ends.
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
