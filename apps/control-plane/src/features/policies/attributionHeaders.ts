import { AppError } from '@weighbridge/errors';
import { isAttributionName, namesOf } from './attributionNames.ts';

/** What a header may say. The workload type and the pod have headers of this service only: routing goes by the first. */
const SAID = ['user', 'team', 'project', 'env', 'session', 'namespace', 'workload'] as const;
const TOKEN = /^[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/;
/** Values of attribution are in the ledger, in reports and in errors. */
const SECRET =
  /(^|-)(authorization|authentication|cookie|credentials?|password|secret|signature|token|(api-?)?key)\d*(-|$)/;
/** Said of a message or its way, and of no one. */
const OF_MESSAGES =
  /^(accept|connection|content|expect|host|if|keep-alive|te|trailer|transfer|upgrade|via|x-svc|sec)(-|$)/;

/** The headers that a policy maps, in lower case. Throws a 422 that names the field. */
export function validAttributionHeaders(given: Readonly<Record<string, string>>): Record<string, string> {
  const headers = new Map<string, string>();
  const said = new Set<string>();
  for (const [name, attribution] of Object.entries(given)) {
    const field = `attribution_headers.${name}`;
    const header = name.toLowerCase();
    if (!TOKEN.test(header)) throw invalid(field, 'This is not the name of a header.');
    if (SECRET.test(header)) {
      throw invalid(
        field,
        'This header may carry a credential, and attribution is shown in reports: choose another one.',
      );
    }
    if (OF_MESSAGES.test(header)) {
      throw invalid(field, 'This header says something else already: choose another one.');
    }
    if (headers.has(header)) throw invalid(field, 'Two names differ only in case.');
    if (!isAttributionName(attribution, SAID)) {
      throw invalid(field, `There is no attribution of this name: use ${namesOf(SAID)}.`);
    }
    if (said.has(attribution)) throw invalid(field, `Two headers say the ${attribution}: give one.`);
    said.add(attribution);
    headers.set(header, attribution);
  }
  return Object.fromEntries(headers);
}

function invalid(param: string, message: string): AppError {
  return new AppError('validation', 'attribution_headers_invalid', message, { param });
}
