import {
  type Alias,
  compileModelPatterns,
  DEFAULT_PROFILE,
  didYouMean,
  ModelNames,
  type NameKind,
  nearestModels,
  nearestNames,
  profileNameOf,
  ROUTER_PREFIX,
  type RoutingProfile,
  selectModels,
  shortened,
} from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { routedAliases } from '../aliases/aliases.service.ts';
import type { PricedModel } from '../catalog/catalog.service.ts';
import { type UsableConnector, usableConnectors } from '../connectors/connectors.service.ts';
import { routeTaken } from '../connectors/providers.ts';
import { type ModelDeps, servedModels } from '../models/models.service.ts';
import type { PolicyRow } from '../policies/policies.service.ts';
import {
  existingProfile,
  profileByName,
  routingProfileOf,
  routingProfiles,
} from '../profiles/profiles.service.ts';
import { candidatesOf } from './candidates.service.ts';
import type { ExplainRequest } from './explain.schemas.ts';

/** What a name of a request stands for, and by which rule. */
export interface ExplainedName {
  readonly name: string;
  /** `<provider>/<model>` or `router/<profile>` */
  readonly target: string;
  readonly by: NameKind;
  readonly aliasId: string | undefined;
  readonly sentName: string | undefined;
}

interface NameFacts {
  /** Those that apply, the nearest first. */
  readonly policies: readonly PolicyRow[];
  readonly route: NonNullable<ExplainRequest['route']>;
}

/** What a name of a request stands for under these policies. Throws the 404 of a proxy if it stands for nothing. */
export async function explainedName(
  deps: ModelDeps,
  name: string,
  facts: NameFacts,
): Promise<{ resolved: ExplainedName; profile: RoutingProfile | undefined }> {
  const names = await namesNow(deps);
  const policyIds = facts.policies.map(({ id }) => id);
  const known = name === ROUTER_PREFIX ? undefined : names.index.resolve(name, policyIds);
  const { target, by, alias, sentName } = known ?? raise(unknownModel(name, names, facts));
  const profileName = profileNameOf(target);
  return {
    resolved: { name, target, by, aliasId: alias?.id, sentName },
    profile: profileName === undefined ? undefined : await profileNamed(deps, profileName, facts),
  };
}

interface Names {
  readonly aliases: readonly Alias[];
  readonly models: readonly PricedModel[];
  readonly connectors: readonly UsableConnector[];
  readonly index: ModelNames;
}

/** The names that proxies resolve now. */
async function namesNow(deps: ModelDeps): Promise<Names> {
  const aliases = await routedAliases(deps.db);
  const all = await usableConnectors(deps);
  const { models } = await servedModels(deps.db, all);
  const connectors = all
    .map((connector) => ({ ...connector, serves: compileModelPatterns(connector.models) }))
    .sort((a, b) => a.priority - b.priority);
  const index = new ModelNames({
    models: models.map(({ id, provider, other_names, own }) => ({
      id,
      provider,
      otherNames: other_names,
      own,
    })),
    aliases,
    providers: connectors.map(({ provider }) => provider),
    priorityOf: ({ id, provider }) =>
      connectors.find((one) => one.provider === provider && one.serves(id))?.priority ?? 0,
  });
  return { aliases, models, connectors: all, index };
}

/** The profile behind `router/<name>`; `default` is that of the nearest policy with one. */
async function profileNamed(deps: ModelDeps, name: string, facts: NameFacts): Promise<RoutingProfile> {
  const ofPolicy = facts.policies.find(({ profile_id }) => profile_id !== null)?.profile_id;
  const row =
    name === DEFAULT_PROFILE && ofPolicy
      ? await existingProfile(deps.db, ofPolicy)
      : await profileByName(deps.db, name);
  return row ? routingProfileOf(row) : raise(await unknownProfile(deps, name, facts));
}

function unknownModel(
  name: string,
  { aliases, index, models, connectors }: Names,
  { policies, route }: NameFacts,
): AppError {
  const allowedByEach = policies.map(({ allowed_models }) => compileModelPatterns(allowed_models));
  const serving = connectors
    .filter((connector) => routeTaken(connector, route) !== undefined)
    .map(({ provider, models: patterns }) => ({ provider, serves: compileModelPatterns(patterns) }));
  const isReachable = ({ id, provider }: { readonly id: string; readonly provider: string }) =>
    allowedByEach.every((allows) => allows(id)) &&
    serving.some((connector) => connector.provider === provider && connector.serves(id));
  const suggested = models.map(({ id, provider, other_names, upstream_name }) => {
    return { id, provider, otherNames: other_names, upstreamName: upstream_name };
  });
  const exact = aliases.length === 0 ? [] : index.aliasesOf(policies.map(({ id }) => id));
  const meant = didYouMean(nearestModels(name, suggested, exact, isReachable));
  return notFound(
    `There is no model ${shortened(name)}: no alias, and no priced model that an enabled connector serves, has this name.${meant} GET /api/v1/models lists the models.`,
  );
}

async function unknownProfile(deps: ModelDeps, name: string, { policies }: NameFacts): Promise<AppError> {
  const profiles = await routingProfiles(deps.db);
  const targets = [...new Set(profiles.flatMap((profile) => profile.targets.map(({ model }) => model)))];
  const { candidates } = await candidatesOf(
    deps,
    { targets: targets.map((model) => ({ model, weight: 1 })) },
    { policies, workloadType: '', strata: undefined },
  );
  const offers = new Map(candidates.map((offer) => [offer.model, offer]));
  const byName = new Map(profiles.map((profile) => [profile.name, profile]));
  const near = nearestNames(name, byName.keys(), (one) => {
    const profile = byName.get(one);
    // Model by model: the first one that is usable is enough.
    return !!profile?.targets.some(({ model }) => {
      const offer = offers.get(model);
      return offer && selectModels(profile, [offer], ANY_ROUTE).ranked.length > 0;
    });
  });
  const meant = didYouMean(near.map((one) => `${ROUTER_PREFIX}${one}`));
  return notFound(
    `There is no routing profile "${shortened(name)}".${meant} GET /api/v1/profiles lists the profiles.`,
  );
}

const ANY_ROUTE: Parameters<typeof selectModels>[2] = {
  servesRoute: () => true,
  inOrder: (connectors) => connectors,
  random: () => 0.5,
};

function notFound(message: string): AppError {
  return new AppError('not_found', 'model_not_found', message, { param: 'model' });
}
