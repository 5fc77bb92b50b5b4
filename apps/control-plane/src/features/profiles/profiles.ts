import { parseModelId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';

export const STRATEGIES = ['ordered', 'weighted', 'cheapest', 'fastest', 'best_score', 'adaptive'] as const;

/** A routing profile: `router/<name>` names it where a model is asked for. */
export interface ProfileSettings {
  /** Lower case, digits, `.`, `_` and `-`: it is part of a model's name. */
  readonly name: string;
  readonly strategy: (typeof STRATEGIES)[number];
  readonly targets: ProfileTarget[];
  readonly constraints: ProfileConstraints;
}

export interface ProfileTarget {
  /** `<provider>/<model>` */
  readonly model: string;
  /** For the strategy `weighted`; 1 where it is left out. */
  readonly weight?: number;
}

/** What a target must fulfil to be chosen. Prices are micro-USD per one million tokens. */
export interface ProfileConstraints {
  readonly context_window?: number;
  readonly max_input_price_micro_usd?: number;
  readonly max_output_price_micro_usd?: number;
  readonly min_score?: number;
  readonly capabilities?: string[];
}

export type NewProfile = Pick<ProfileSettings, 'name' | 'strategy' | 'targets'> & Partial<ProfileSettings>;
export type ProfileChanges = Partial<ProfileSettings>;

const NAME = /^[a-z0-9][a-z0-9._-]{0,99}$/;

export function requireProfileName(name: string): string {
  if (NAME.test(name)) return name;
  throw new AppError(
    'validation',
    'name_invalid',
    'A profile is named in lower case, digits, ".", "_" and "-", with at most 100 characters, such as "cheap-chat".',
    { param: 'name' },
  );
}

/** The targets as they are kept; a model that can't be one is a 422. Whether it can be reached changes from day to day. */
export function requireTargets(targets: readonly ProfileTarget[]): readonly ProfileTarget[] {
  for (const [index, { model }] of targets.entries()) {
    const provider = parseModelId(model)?.provider;
    if (provider !== undefined && provider !== 'router') continue;
    throw new AppError(
      'validation',
      'target_invalid',
      `targets.${index}.model must be <provider>/<model>, and no profile.`,
      {
        param: `targets.${index}.model`,
      },
    );
  }
  return targets;
}
