import type { Route } from '@weighbridge/contracts';
import {
  DEFAULT_PROFILE,
  type Draw,
  didYouMean,
  furthestStage,
  nearestNames,
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
import {
  canAnswer,
  priceAt,
  type ResolvedKey,
  ROUTE_PATHS,
  type RoutableConnector,
  type RoutedOperation,
  type RoutingTable,
} from '@weighbridge/state';
import type { Target, Targets } from '../control/target.ts';
import { orderConnectors } from './connectorOrder.ts';
import { hintFor, passingFirst, servingConnectors } from './modelTargets.ts';

export interface ProfileDeps {
  readonly random: Draw;
  /** The evidence about models. */
  readonly strata: Strata;
}

/** What a profile looks at in a request. */
export interface ProfileRequest {
  readonly key: ResolvedKey;
  readonly operation: RoutedOperation;
  readonly workloadType: string;
}

/** Finds a profile by name; `default` is the profile of the key's policies. Throws a 404 for an unknown name. */
export function findProfile(name: string, key: ResolvedKey, table: RoutingTable): RoutingProfile {
  const { profileId } = key;
  if (name !== DEFAULT_PROFILE || profileId === undefined) {
    return table.profiles.get(name) ?? raise(unknownProfile(name, key, table));
  }
  return profileWithId(profileId, table);
}

/** The profile that a policy names. */
export function profileWithId(profileId: string, table: RoutingTable): RoutingProfile {
  for (const profile of table.profiles.values()) if (profile.id === profileId) return profile;
  const message = "This proxy has not received the routing profile of the key's policy yet. Try again.";
  throw new AppError('unavailable', 'profile_not_known', message);
}

/** The targets of a profile for a request: its models, best first, each at its connectors. Throws if there is none. */
export function targetsForProfile(
  deps: ProfileDeps,
  profile: RoutingProfile,
  request: ProfileRequest,
  table: RoutingTable,
): Targets {
  const { operation } = request;
  const offers = profile.targets.map((target) => offerOf(deps.strata, target, request, table));
  const selection = selectModels(profile, offers, {
    servesRoute: (connector) => canAnswer(connector, operation),
    inOrder: (connectors) => passingFirst(orderConnectors(connectors, deps.random), operation),
    random: deps.random,
  });
  const [first, ...others] = selection.ranked.flatMap(({ model: id, connectors }) => {
    const model = table.models.get(id);
    return model ? connectors.map((connector): Target => ({ model, connector })) : [];
  });
  return first ? [first, ...others] : raise(noTargetError(profile, selection, operation.route, table));
}

/** The names of the profiles with a model that the key may use on some route, sorted. */
export function reachableProfiles(key: ResolvedKey, table: RoutingTable): string[] {
  const request = { key, workloadType: '' };
  // Model by model: the first one that is usable is enough.
  const isReachable = (profile: RoutingProfile) =>
    profile.targets.some((target) => {
      const offer = offerOf(WITHOUT_EVIDENCE.strata, target, request, table);
      return selectModels(profile, [offer], WITHOUT_EVIDENCE).ranked.length > 0;
    });
  const named = [...table.profiles.values()].filter(({ name }) => name !== DEFAULT_PROFILE);
  const defaults = [...table.profiles.values()].find((profile) =>
    key.profileId === undefined ? profile.name === DEFAULT_PROFILE : profile.id === key.profileId,
  );
  const names = named.filter(isReachable).map(({ name }) => name);
  return (defaults && isReachable(defaults) ? [DEFAULT_PROFILE, ...names] : names).sort();
}

const WITHOUT_EVIDENCE: ProfileDeps & SelectionDeps<RoutableConnector> = {
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
  const serving = model ? servingConnectors(model, table) : [];
  if (!model || serving.length === 0) {
    return { model: id, unusable: 'it has no price, or no enabled connector serves it' };
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

function unknownProfile(name: string, key: ResolvedKey, table: RoutingTable): AppError {
  const shortName = name.length <= 100 ? name : `${name.slice(0, 100)}…`;
  let reachable: ReadonlySet<string> | undefined;
  const near = nearestNames(name, table.profiles.keys(), (profile) => {
    // Only if a name is alike: which profiles a key can reach takes a look at all of their models.
    reachable ??= new Set(reachableProfiles(key, table));
    return reachable.has(profile);
  });
  const meant = didYouMean(near.map((profile) => `${ROUTER_PREFIX}${profile}`));
  const message = `There is no routing profile "${shortName}".${meant} GET /v1/models lists the profiles, as ${ROUTER_PREFIX}….`;
  return new AppError('not_found', 'model_not_found', message, { param: 'model' });
}

/** The number of models in a message. */
const MAX_REASONS = 5;

function noTargetError(
  profile: RoutingProfile,
  { excluded }: Selection<RoutableConnector>,
  route: Route,
  table: RoutingTable,
): AppError {
  const param = { param: 'model' };
  const stage = furthestStage(excluded);
  const whose = `of the routing profile ${profile.name}`;
  const failed = excluded.filter((one) => one.stage === stage);
  switch (stage) {
    case 'policy': {
      const message = `A policy that applies to this key allows no model ${whose}.`;
      return new AppError('permission', 'model_not_allowed', message, param);
    }
    case 'route': {
      const message = `No model ${whose} supports ${ROUTE_PATHS[route]}.${routeHint(failed, route, table)}`;
      return new AppError('invalid_request', 'route_not_supported', message, param);
    }
    case 'constraints': {
      const reasons = failed.slice(0, MAX_REASONS).map(({ model, why }) => `${model}: ${why}`);
      const more = failed.length > MAX_REASONS ? [`and ${failed.length - MAX_REASONS} more`] : [];
      const message = `No model ${whose} meets its constraints. ${[...reasons, ...more].join('; ')}.`;
      return new AppError('not_found', 'model_not_found', message, param);
    }
    case 'unusable': {
      const message = `No model ${whose} is usable: none has both a price and an enabled connector.`;
      return new AppError('not_found', 'model_not_found', message, param);
    }
  }
}

function routeHint(models: readonly { readonly model: string }[], route: Route, table: RoutingTable): string {
  for (const { model: id } of models) {
    const model = table.models.get(id);
    const [serving] = model ? servingConnectors(model, table) : [];
    const hint = model && serving ? hintFor(model, serving, route) : '';
    if (hint !== '') return hint;
  }
  return '';
}
