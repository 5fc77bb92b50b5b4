import { type Format, OWNERS, type TargetFormat } from '../src/format.ts';
import type { LossPolicy } from '../src/loss/losses.ts';
import { DEFAULT_QUIRKS, type Quirks } from '../src/quirks/quirks.ts';
import { parseRequest, type Translation, translateRequest } from '../src/translateRequest.ts';
import type { SealScope } from '../src/wire/seal.ts';
import type { Target } from '../src/writeContext.ts';

export const SCOPE: SealScope = { key: Buffer.alloc(32, 7), principal: 'ada' };

/** A target that takes stops and sampling, so that a sample is not refused for them. */
export function targetOf(format: TargetFormat, quirks: Partial<Quirks> = {}): Target {
  const all = { ...DEFAULT_QUIRKS[format], maxStops: 4, sampling: true, ...quirks };
  return { format, owner: OWNERS[format], account: 'con_1', model: `${format}-model`, quirks: all };
}

export function translate(
  from: Format,
  body: unknown,
  target: Target,
  policy: LossPolicy = 'lenient',
): Translation {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const parsed = parseRequest(from, bytes);
  if (!parsed) throw new Error('the body is no JSON');
  return translateRequest(parsed, { target, scope: SCOPE, policy });
}

/** The body of a request that is not refused. */
export function bodyOf(translation: Translation): string {
  if (translation.kind === 'translated') return translation.body;
  throw new Error(`refused: ${JSON.stringify(translation.losses)}`);
}
