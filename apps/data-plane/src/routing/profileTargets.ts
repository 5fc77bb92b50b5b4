import type { Route } from '@weighbridge/contracts';
import {
  DEFAULT_PROFILE,
  type Draw,
  furthestStage,
  type Offer,
  observedOf,
  ROUTER_PREFIX,
  type RoutingProfile,
  type RoutingTarget,
  type Selection,
  type SelectionDeps,
  type Strata,
  selectModels,
} from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { ROUTE_PATHS, routesOf, servesRoute } from '../control/connectorRoutes.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { priceAt, type RoutableConnector, type RoutingTable } from '../control/routingTable.ts';
import type { Target, Targets } from '../control/target.ts';
import { orderConnectors } from './connectorOrder.ts';

export interface ProfileDeps {
  readonly random: Draw;
  /** What was observed of models. */
  readonly strata: Strata;
}

/** A request as far as a profile looks at it. */
export interface ProfileRequest {
  readonly key: ResolvedKey;
  readonly route: Route;
  readonly workloadType: string;
}

/** The profile of a name; `default` is that of the key's policies. Any other that is not there is a 404. */
export function findProfile(name: string, { profileId }: ResolvedKey, table: RoutingTable): RoutingProfile {
  if (name !== DEFAULT_PROFILE || profileId === undefined) {
    return table.profiles.get(name) ?? raise(unknownProfile(name));
  }
  for (const profile of table.profiles.values()) if (profile.id === profileId) return profile;
  const message = 'The routing profile of this key’s policy is not known to this proxy yet. Try again.';
  throw new AppError('unavailable', 'profile_not_known', message);
}

/** Where a request to a profile may go, best first: one model after the other; where nowhere, an error that says why. */
export function targetsForProfile(
  deps: ProfileDeps,
  profile: RoutingProfile,
  request: ProfileRequest,
  table: RoutingTable,
): Targets {
  const offers = profile.targets.map((target) => offerOf(deps.strata, target, request, table));
  const selection = selectModels(profile, offers, {
    servesRoute: (connector) => servesRoute(connector, request.route),
    inOrder: (connectors) => orderConnectors(connectors, deps.random),
    random: deps.random,
  });
  const [first, ...others] = selection.ranked.flatMap(({ model: id, connectors }) => {
    const model = table.models.get(id);
    return model ? connectors.map((connector): Target => ({ model, connector })) : [];
  });
  return first ? [first, ...others] : raise(nothingLeft(profile, selection, request.route, table));
}

/** What a key may ask for as `router/<name>` with some model left that would serve it, whatever the route; by name. */
export function reachableProfiles(key: ResolvedKey, table: RoutingTable): string[] {
  const request = { key, workloadType: '' };
  // One model after the other: where there are many profiles, the first one that will do is enough.
  const reaches = (profile: RoutingProfile) =>
    profile.targets.some((target) => {
      const offer = offerOf(NOTHING_OBSERVED.strata, target, request, table);
      return selectModels(profile, [offer], NOTHING_OBSERVED).ranked.length > 0;
    });
  const named = [...table.profiles.values()].filter(({ name }) => name !== DEFAULT_PROFILE);
  const defaults = [...table.profiles.values()].find((profile) =>
    key.profileId === undefined ? profile.name === DEFAULT_PROFILE : profile.id === key.profileId,
  );
  const names = named.filter(reaches).map(({ name }) => name);
  return (defaults && reaches(defaults) ? [DEFAULT_PROFILE, ...names] : names).sort();
}

const NOTHING_OBSERVED: ProfileDeps & SelectionDeps<RoutableConnector> = {
  strata: () => undefined,
  random: () => 0.5,
  servesRoute: () => true,
  inOrder: (connectors) => connectors,
};

function offerOf(
  strata: Strata,
  { model: id, weight }: RoutingTarget,
  { key, workloadType }: Pick<ProfileRequest, 'key' | 'workloadType'>,
  table: RoutingTable,
): Offer<RoutableConnector> {
  const model = table.models.get(id);
  const all = (model && table.connectors.get(model.provider)) ?? [];
  const serving = all.filter((connector) => connector.serves(id));
  if (!model || serving.length === 0) {
    return { model: id, unusable: 'it has no price here, or no enabled connector serves it' };
  }
  return {
    model: id,
    weight,
    contextWindow: model.contextWindow,
    score: model.score,
    capabilities: model.capabilities,
    ...observedOf(strata, workloadType, id),
    isAllowed: key.policies.every((policy) => policy.allows(id)),
    connectors: serving.map((connector) => ({ connector, price: priceAt(model, connector).price })),
  };
}

function unknownProfile(name: string): AppError {
  const shown = name.length <= 100 ? name : `${name.slice(0, 100)}…`;
  const message = `There is no routing profile "${shown}". GET /v1/models lists those that there are, as ${ROUTER_PREFIX}….`;
  return new AppError('not_found', 'model_not_found', message, { param: 'model' });
}

/** How many models a message says the reasons of. */
const MAX_REASONS = 5;

function nothingLeft(
  profile: RoutingProfile,
  { excluded }: Selection<RoutableConnector>,
  route: Route,
  table: RoutingTable,
): AppError {
  const param = { param: 'model' };
  const stage = furthestStage(excluded);
  const whose = `of the routing profile ${profile.name}`;
  const fallen = excluded.filter((one) => one.stage === stage);
  switch (stage) {
    case 'policy': {
      const message = `The policy of this key allows no model ${whose}.`;
      return new AppError('permission', 'model_not_allowed', message, param);
    }
    case 'route': {
      const message = `No model ${whose} is served on ${ROUTE_PATHS[route]}.${otherRoute(fallen, table)}`;
      return new AppError('invalid_request', 'route_not_supported', message, param);
    }
    case 'constraints': {
      const reasons = fallen.slice(0, MAX_REASONS).map(({ model, why }) => `${model}: ${why}`);
      const more = fallen.length > MAX_REASONS ? [`and ${fallen.length - MAX_REASONS} more`] : [];
      const message = `No model ${whose} fulfils its constraints. ${[...reasons, ...more].join('; ')}.`;
      return new AppError('not_found', 'model_not_found', message, param);
    }
    case 'unusable': {
      const message = `No model ${whose} can be used now: none has both a price and an enabled connector here.`;
      return new AppError('not_found', 'model_not_found', message, param);
    }
  }
}

function otherRoute(models: readonly { readonly model: string }[], table: RoutingTable): string {
  for (const { model: id } of models) {
    const provider = table.models.get(id)?.provider ?? '';
    const serving = table.connectors.get(provider)?.find((connector) => connector.serves(id));
    const [works] = serving ? routesOf(serving) : [];
    if (works !== undefined) return ` Use ${ROUTE_PATHS[works]}.`;
  }
  return '';
}
