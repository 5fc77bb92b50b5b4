import { type Money, moneyFromNano, type NanoUsd } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';

const DEFAULT_PAGE_SIZE = 100;
const MAX_PAGE_SIZE = 500;

/** `avg_score` is the mean of what is there, each on a scale of 100; a score that nobody published stays absent. */
export function benchmarkScores(scores: Readonly<Record<string, number>>): Record<string, number> {
  const { mmlu, human_eval, mt_bench } = scores;
  const percent = [mmlu, human_eval, mt_bench === undefined ? undefined : mt_bench * 10].filter(
    (score) => score !== undefined,
  );
  if (percent.length === 0) return {};
  const mean = percent.reduce((sum, score) => sum + score, 0) / percent.length;
  return {
    ...(mmlu !== undefined && { mmlu }),
    ...(human_eval !== undefined && { human_eval }),
    ...(mt_bench !== undefined && { mt_bench }),
    avg_score: Math.round(mean * 100) / 100,
  };
}

/** A price per one million tokens, as the API shows it. */
export function price(nano: NanoUsd): Money {
  return moneyFromNano(nano);
}

/** An opaque token that says after which model the next page begins: stable while models come and go. */
export function pageTokenAfter(modelId: string): string {
  return Buffer.from(JSON.stringify({ after: modelId })).toString('base64url');
}

/** Where a page begins; an empty token is the first page. */
export function modelBefore(pageToken: string | undefined): string {
  if (!pageToken) return '';
  try {
    const { after } = JSON.parse(Buffer.from(pageToken, 'base64url').toString()) as { after: unknown };
    if (typeof after === 'string' && pageTokenAfter(after) === pageToken) return after;
  } catch {
    // Told below, in the same words as for any other token that is not ours.
  }
  throw new AppError(
    'invalid_request',
    'invalid_page_token',
    'This page_token is not one that this list gave out. Leave it out to begin at the first page.',
    { param: 'page_token' },
  );
}

export function pageSize(text: string | undefined): number {
  if (text === undefined) return DEFAULT_PAGE_SIZE;
  const size = Number(text);
  if (/^\d+$/.test(text) && size >= 1 && size <= MAX_PAGE_SIZE) return size;
  throw new AppError(
    'invalid_request',
    'invalid_request',
    `page_size: must be a whole number from 1 to ${MAX_PAGE_SIZE}.`,
    {
      param: 'page_size',
    },
  );
}
