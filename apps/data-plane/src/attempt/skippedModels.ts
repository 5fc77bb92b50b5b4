import { headerText } from './responseHeaders.ts';

/** A model that a request passed over, and the further limit that had no headroom for it. */
export interface SkippedModel {
  readonly model: string;
  readonly limit: string;
}

/** A profile may have many models; clients take few KiB of headers, and the record of an attempt has little space. */
const MAX_SHOWN = 3;

/** As a header names them: `mock/large large%20models, mock/fine large%20models and 2 more`. */
export function skippedText(skipped: readonly SkippedModel[]): string {
  const rest = skipped.length - MAX_SHOWN;
  const names = shown(skipped, ({ model, limit }) => `${headerText(model)} ${headerText(limit)}`);
  return `${names.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/** The same as the ledger keeps it, one text for each. */
export function skippedModels(skipped: readonly SkippedModel[]): readonly string[] {
  if (skipped.length === 0) return NONE;
  const rest = skipped.length - MAX_SHOWN;
  const names = shown(skipped, ({ model, limit }) => `${model} ${limit}`);
  return rest > 0 ? [...names, `${rest} more`] : names;
}

const NONE: readonly string[] = [];

function shown(skipped: readonly SkippedModel[], text: (one: SkippedModel) => string): string[] {
  return skipped.slice(0, MAX_SHOWN).map(text);
}
