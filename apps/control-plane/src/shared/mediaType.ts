import { AppError } from '@weighbridge/errors';

/**
 * The offered media type that an `Accept` header prefers (RFC 9110, 12.5.1), or the first one offered if it has no
 * preference. Throws a 406 if it accepts none of them.
 */
export function acceptedType<const T extends string>(
  header: string | undefined,
  offered: readonly [T, ...T[]],
): T {
  if (header === undefined || header.trim() === '') return offered[0];
  const ranges = header.split(',').map(mediaRange);
  let best: { type: T; quality: number } | undefined;
  for (const type of offered) {
    const quality = qualityOf(type, ranges);
    if (quality > (best?.quality ?? 0)) best = { type, quality };
  }
  if (best) return best.type;
  throw new AppError(
    'not_acceptable',
    'not_acceptable',
    `This resource is available as ${offered.join(' or ')}. Name one of them in the Accept header.`,
    { param: 'accept' },
  );
}

interface MediaRange {
  readonly range: string;
  readonly quality: number;
}

function mediaRange(text: string): MediaRange {
  const [range = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase());
  const q = parameters.find((parameter) => /^q\s*=/.test(parameter))?.split('=')[1];
  const quality = q === undefined ? 1 : Number(q);
  return { range, quality: quality >= 0 && quality <= 1 ? quality : 0 };
}

/** The most specific range that covers the type decides. */
function qualityOf(type: string, ranges: readonly MediaRange[]): number {
  for (const range of [type, `${type.split('/')[0]}/*`, '*/*']) {
    const found = ranges.find((one) => one.range === range);
    if (found) return found.quality;
  }
  return 0;
}
