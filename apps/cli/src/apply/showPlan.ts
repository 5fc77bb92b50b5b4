import { price, printable } from '../session/output.ts';
import type { Change } from './changes.ts';

const SIGN = { create: '+', update: '~', delete: '-' } as const;

const PARTS_OF_PRICE: ReadonlySet<string> = new Set(['tiers', 'variants', 'tool_prices']);

/** The changes as text: a line per resource, and below it a line per field. */
export function showPlan(changes: readonly Change[]): string {
  return changes
    .flatMap(({ action, kind, name, fields }) => [
      `${SIGN[action]} ${kind} ${printable(name)}`,
      ...fields.map(({ field, before, after }) =>
        action === 'update'
          ? `    ${field}: ${value(before)} → ${value(after)}`
          : `    ${field}: ${value(after ?? before)}`,
      ),
    ])
    .join('\n');
}

/** `1 to create, 2 to update` */
export function summary(changes: readonly Change[]): string {
  const counts = (['create', 'update', 'delete'] as const)
    .map((action) => [action, changes.filter((change) => change.action === action).length] as const)
    .filter(([, count]) => count > 0)
    .map(([action, count]) => `${count} to ${action}`);
  return counts.join(', ') || 'Nothing to change.';
}

function value(field: unknown): string {
  // A resource that doesn't exist yet has a placeholder instead of an id: show its name.
  const [, name] = /^\{\w+:(.*)\}$/.exec(String(field)) ?? [];
  if (name !== undefined) return printable(name);
  return field === undefined || field === null ? 'none' : printable(JSON.stringify(field, readable));
}

/** Amounts as dollars, and nothing of what a price does not have. */
function readable(name: string, field: unknown): unknown {
  if (PARTS_OF_PRICE.has(name) && Object.keys(field ?? {}).length === 0) return undefined;
  if (field === null && name.endsWith('_price')) return undefined;
  const isMoney = typeof field === 'object' && field !== null && 'currency_code' in field;
  return isMoney ? price(field as unknown as Parameters<typeof price>[0]) : field;
}
