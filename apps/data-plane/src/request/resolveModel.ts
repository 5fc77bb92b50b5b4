import { DEFAULT_PROFILE, profileNameOf, type ResolvedName, shortened } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { ResolvedKey, RoutingTable } from '@weighbridge/state';
import { policyIdsOf } from '../routing/allowedModels.ts';

/** No name of a model has a slash at an end, nor what can't be printed. */
const MALFORMED = /^\s*$|^\/|\/$|[\p{Cc}\p{Cs}]/u;

/**
 * What a name that is no model's id stands for, under the policies of a key; undefined if it is unknown. Throws a 400 for what
 * can't be a name, and a 404 for an alias whose target can't be reached.
 */
export function resolveRequested(
  name: string,
  key: ResolvedKey,
  table: RoutingTable,
): ResolvedName | undefined {
  if (MALFORMED.test(name)) throw malformedName(name);
  return resolveName(name, key, table);
}

/** As `resolveRequested`; what can't be a name is unknown. */
export function resolveName(name: string, key: ResolvedKey, table: RoutingTable): ResolvedName | undefined {
  const { names } = table;
  const resolved = names.resolve(name, policyIdsOf(key, table));
  if (resolved?.alias) assertReachable(name, resolved, table);
  return resolved;
}

function malformedName(name: string): AppError {
  const problem = name.trim() === '' ? 'is empty' : 'is not a name of a model';
  const message = `model ${problem}. Send a name such as "gpt-5.4", "openai/gpt-5.4" or "router/<profile>".`;
  return new AppError('invalid_request', 'invalid_model', message, { param: 'model' });
}

function assertReachable(name: string, { target, alias }: ResolvedName, table: RoutingTable): void {
  const profile = profileNameOf(target);
  if (profile === undefined ? table.models.has(target) : isProfile(profile, table)) return;
  const what = profile === undefined ? 'model with a price and an enabled connector' : 'routing profile';
  const whose = alias?.name === name ? '' : ` (${shortened(alias?.name ?? '')})`;
  const message = `The alias ${shortened(name)}${whose} stands for ${shortened(target)}, and there is no such ${what} now. Ask an operator to change the alias.`;
  throw new AppError('not_found', 'model_not_found', message, { param: 'model' });
}

/** `router/default` depends on the key: whoever looks for it says what is missing. */
function isProfile(name: string, { profiles }: RoutingTable): boolean {
  return name === DEFAULT_PROFILE || profiles.has(name);
}
