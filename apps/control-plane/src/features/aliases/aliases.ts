import { parseModelId, profileNameOf, ROUTER_PREFIX } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { beginsWith } from '../../shared/namePrefix.ts';
import { validProfileName } from '../profiles/profiles.ts';

const MAX_NAME = 200;
/** The characters of names of models. The last one may be a `*`. */
const NAME = /^[A-Za-z0-9._:@/+[\]-]*\*?$/;

/** Returns the name of an alias; throws a 422 if it breaks a rule. */
export function validAliasName(name: string): string {
  const hasLength = name.length >= 1 && name.length <= MAX_NAME;
  if (!hasLength || !NAME.test(name) || name.startsWith('/') || name.endsWith('/')) {
    throw nameInvalid(
      `An alias has 1 to ${MAX_NAME} letters, digits and any of . _ : @ / + - [ ], with no slash at an end. Only its last character may be a *.`,
    );
  }
  if (name.startsWith(ROUTER_PREFIX)) {
    throw nameInvalid(`An alias can't begin with ${ROUTER_PREFIX}: such a name is always a routing profile.`);
  }
  return name;
}

/** Throws a 422 if the name begins with one of the providers: such a name is always a model of it. */
export function assertNoProvider(name: string, providers: ReadonlySet<string>): void {
  const provider = beginsWith(name, providers);
  if (provider === undefined) return;
  throw nameInvalid(
    `An alias can't begin with ${provider}/: such a name is always a model of this provider. Choose a name without it.`,
  );
}

/** Returns the target of an alias; throws a 422 for what is neither a model nor a profile. So aliases can't form a loop. */
export function validAliasTarget(target: string): string {
  const profile = profileNameOf(target);
  if (profile !== undefined) {
    validProfileNameOfTarget(profile);
    return target;
  }
  if (target.length <= 300 && parseModelId(target) && !target.startsWith(ROUTER_PREFIX)) return target;
  throw targetInvalid(
    "target must be <provider>/<model> or router/<profile>. An alias can't stand for another alias or a bare name.",
  );
}

function validProfileNameOfTarget(profile: string): void {
  try {
    validProfileName(profile);
  } catch {
    throw targetInvalid(`target: ${ROUTER_PREFIX} must be followed by the name of a routing profile.`);
  }
}

export function targetInvalid(message: string): AppError {
  return new AppError('validation', 'target_invalid', message, { param: 'target' });
}

function nameInvalid(message: string): AppError {
  return new AppError('validation', 'name_invalid', message, { param: 'name' });
}
