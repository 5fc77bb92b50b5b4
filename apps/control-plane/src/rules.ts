import { isPrincipalId, parseRfc3339 } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { NewAlias } from './features/aliases/aliases.schemas.ts';
import { validAliasName, validAliasTarget } from './features/aliases/aliases.ts';
import type { NewCatalogModel } from './features/catalog/catalog.schemas.ts';
import { parseNewModelId } from './features/catalog/catalog.ts';
import { validOtherNames } from './features/catalog/otherNames.ts';
import type { NewPrice } from './features/catalog/prices.schemas.ts';
import { parsePrice } from './features/catalog/prices.ts';
import { assertAuth } from './features/connectors/connectorAuth.ts';
import type { NewConnector } from './features/connectors/connectors.schemas.ts';
import {
  dialectAndBaseUrl,
  validConnectorName,
  validModelPatterns,
  validUpstreamNames,
} from './features/connectors/connectors.ts';
import type { NewPolicy } from './features/policies/policies.schemas.ts';
import { validTimezone } from './features/policies/policies.ts';
import type { NewProfile } from './features/profiles/profiles.schemas.ts';
import { validProfileName, validTargets } from './features/profiles/profiles.ts';
import { validDisplayName } from './shared/displayName.ts';

/**
 * Rules of the service that need no database, so that a file can be checked before it is applied. Each function throws
 * the AppError of the service.
 */

/** Whether the service takes a text as a time. */
export function isDateTime(text: string): boolean {
  return parseRfc3339(text) !== undefined;
}

export function checkPolicy({ name, timezone }: NewPolicy): void {
  validDisplayName(name);
  if (timezone !== undefined) validTimezone(timezone);
}

export function checkProfile({ name, targets }: NewProfile): void {
  validProfileName(name);
  validTargets(targets);
}

/** An alias. Whether its target exists is not known here. */
export function checkAlias({ name, target }: Pick<NewAlias, 'name' | 'target'>): void {
  validAliasName(name);
  validAliasTarget(target);
}

export function checkPrincipal({ id }: { readonly id: string }): void {
  assertPrincipalId(id, 'id');
}

/** A team with the ids of its people. */
export function checkTeam(team: {
  readonly name: string;
  readonly leads?: readonly string[];
  readonly members?: readonly string[];
}): void {
  validDisplayName(team.name);
  for (const list of ['leads', 'members'] as const) {
    for (const [index, id] of (team[list] ?? []).entries()) assertPrincipalId(id, `${list}.${index}`);
  }
}

function assertPrincipalId(id: string, param: string): void {
  if (isPrincipalId(id)) return;
  const message =
    'A principal id must have 1 to 200 printable characters, no spaces at its ends, and not be "." or "..".';
  throw new AppError('validation', 'principal_invalid', message, { param });
}

/** A connector. The name of an existing one is not checked, since one from the environment has a reserved name. */
export function checkConnector(connector: NewConnector, isNew: boolean): void {
  const { name, provider, models, upstream_names } = connector;
  if (isNew) {
    validConnectorName(name);
    dialectAndBaseUrl(connector);
  }
  if (connector.auth) assertAuth(connector.auth);
  validModelPatterns(provider, models ?? []);
  validUpstreamNames(provider, upstream_names ?? {});
}

/** A model of the catalog. Whether its names are another model's is not known here. */
export function checkModel({
  model,
  price,
  other_names = [],
}: Pick<NewCatalogModel, 'price' | 'other_names'> & { readonly model: string }): void {
  validOtherNames(parseNewModelId(model), other_names);
  if (price) parsePrice(price);
}

export function checkModelPrice(model: string, price: NewPrice | undefined): void {
  parseNewModelId(model);
  if (price) parsePrice(price);
}
