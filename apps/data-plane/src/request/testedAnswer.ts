import { redactBody } from '../attempt/redactCredential.ts';
import type { ResponseBody } from '../upstream/responseBody.ts';

const MAX_BODY_BYTES = 1_048_576;
const MAX_EXCERPT = 200;

/** The text of an answer, at most a megabyte of it, without the credential that it may repeat. */
export async function textOf(body: ResponseBody, credential: string): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  await body.forEachChunk((chunk) => {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) body.destroy();
    else chunks.push(chunk);
    return undefined;
  });
  return redactBody(Buffer.concat(chunks), credential).toString('utf8');
}

/** The message of an error in the vendors' usual shapes. */
export function errorMessage(text: string): string {
  const { error, message } = asObject(text);
  const said =
    typeof error === 'object' ? (error as { message?: unknown } | null)?.message : (error ?? message);
  return typeof said === 'string' ? plain(said, MAX_EXCERPT) : '';
}

export function asObject(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** The texts of a member of each item of a list. */
export function namesIn(list: unknown, member: string): string[] {
  const items = Array.isArray(list) ? list : [];
  const names = items.map((item: unknown) => (item as Readonly<Record<string, unknown>> | null)?.[member]);
  return names.flatMap((name) => (typeof name === 'string' && name !== '' ? [plain(name, 128)] : []));
}

export function plain(text: string, length: number): string {
  return text
    .replace(/[\s\p{C}]+/gu, ' ')
    .trim()
    .slice(0, length);
}
