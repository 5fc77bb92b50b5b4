import { isPrincipalId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { parseNewModelId } from './features/catalog/catalog.ts';
import { type NewPrice, parsePrice } from './features/catalog/prices.ts';
import {
  dialectAndBaseUrl,
  type NewConnector,
  validConnectorName,
  validModelPatterns,
  validUpstreamNames,
} from './features/connectors/connectors.ts';
import { type NewPolicy, validTimezone } from './features/policies/policies.ts';
import { type NewProfile, validProfileName, validTargets } from './features/profiles/profiles.ts';
import { validDisplayName } from './shared/displayName.ts';

/**
 * The rules that a thing can be told to break before the service is asked: what checks a file does so by the same rules
 * as the service. Each throws the AppError that the service would answer.
 */

export function checkPolicy({ name, timezone }: NewPolicy): void {
  validDisplayName(name);
  if (timezone !== undefined) validTimezone(timezone);
}

export function checkProfile({ name, targets }: NewProfile): void {
  validProfileName(name);
  validTargets(targets);
}

export function checkPrincipal({ id }: { readonly id: string }): void {
  if (isPrincipalId(id)) return;
  const message = `A principal's id must be 1 to 200 printable characters, without spaces at its ends, and neither "." nor "..".`;
  throw new AppError('validation', 'principal_invalid', message, { param: 'id' });
}

/** A connector, new or not. One that the environment made keeps its name. */
export function checkConnector(connector: NewConnector, isNew: boolean): void {
  const { name, provider, models, upstream_names } = connector;
  if (isNew) {
    validConnectorName(name);
    dialectAndBaseUrl(connector);
  }
  validModelPatterns(provider, models ?? []);
  validUpstreamNames(provider, upstream_names ?? {});
}

export function checkModelPrice(model: string, price: NewPrice | undefined): void {
  parseNewModelId(model);
  if (price) parsePrice(price);
}
