import type { ModelInfo } from '@pydantic/genai-prices';
import { exactNames } from './packagePrices.ts';

/**
 * Other exact names of a listed model, from the package. The package puts models that cost the same under one entry, so
 * a name goes to the listed model of that entry that it spells differently, else to the only one.
 */
export function otherNames(
  name: string,
  model: ModelInfo | undefined,
  listed: ReadonlySet<string>,
): string[] {
  if (!model) return [];
  const all = exactNames(model.match);
  const here = all.filter((one) => listed.has(one));
  const isOnly = new Set(here.map(family)).size === 1 && here[0] === name;
  return all.filter((one) => {
    if (listed.has(one)) return false;
    const spelled = here.filter((other) => spelling(other) === spelling(one));
    return spelled.length > 0 ? spelled[0] === name : isOnly;
  });
}

/** `x-ai/grok-4.3-latest` → `grok-4-3` */
function spelling(name: string): string {
  return name
    .toLowerCase()
    .replace(/^.*\//, '')
    .replaceAll('.', '-')
    .replace(/-latest$/, '');
}

/** The spelling without the date of a release. */
function family(name: string): string {
  return spelling(name).replace(/-(\d{4}-\d{2}-\d{2}|\d{8})$/, '');
}
