import { OPERATIONS, type Operation } from '../formats/operation.ts';

/*
 * Where clients look for the inference API, besides `/v1`. Groq's SDK appends `/openai/v1` to its base URL. Azure's clients
 * append `/openai`, and to some operations the deployment, which here is the model
 * (https://learn.microsoft.com/azure/ai-services/openai/reference).
 */

/** Paths below which OpenAI's operations are served as below `/v1`. */
export const OPENAI_PREFIXES = ['/openai/v1', '/openai'] as const;
export const DEPLOYMENT_PREFIX = '/openai/deployments/:deployment';

/** What clients of OpenAI's dialect ask for. */
export const OPENAI_OPERATIONS: readonly Operation[] = OPERATIONS.filter(
  ({ dialect }) => dialect === 'openai',
);

const DEPLOYMENT =
  /^\/openai\/deployments\/([^?]+?)\/((?:chat\/)?completions|embeddings|responses)(?=\/?(?:\?|$))/;

/** Encodes the slashes in the name of a deployment, which clients do not. */
export function withOneDeployment(url: string): string {
  if (!url.startsWith('/openai/deployments/')) return url;
  return url.replace(
    DEPLOYMENT,
    (_all, name: string, operation: string) =>
      `/openai/deployments/${name.replaceAll('/', '%2F')}/${operation}`,
  );
}

const PREFIX = /^\/(?:v1|v1beta|openai\/v1|openai\/deployments\/:deployment|openai)(?=\/)/;

/** The template of a route below its prefix, such as `/responses/:id`; undefined for a route of another surface. */
export function belowPrefix(route: string | undefined): string | undefined {
  return route !== undefined && PREFIX.test(route) ? route.replace(PREFIX, '') : undefined;
}

const INFERENCE_PATH = /^\/(?:v1|v1beta|openai)(?=[/?]|$)/;
/** What clients ask for if their base URL lacks `/v1`. */
const UNVERSIONED_PATH =
  /^\/(?:chat\/completions|completions|responses|messages|embeddings|models|feedback)(?=[/?]|$)/;

/** Whether a path belongs to the inference API, also one that it does not serve. */
export function isInferencePath(url: string): boolean {
  return INFERENCE_PATH.test(url) || UNVERSIONED_PATH.test(url);
}
