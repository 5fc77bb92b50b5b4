import * as prometheus from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1';
import { Ajv } from 'ajv';
import * as apps from 'kubernetes-models/apps/v1';
import * as autoscaling from 'kubernetes-models/autoscaling/v2';
import * as batch from 'kubernetes-models/batch/v1';
import * as networking from 'kubernetes-models/networking.k8s.io/v1';
import * as policy from 'kubernetes-models/policy/v1';
import * as core from 'kubernetes-models/v1';
import { HTTP_ROUTE, SCALED_OBJECT } from './customSchemas.ts';
import type { Manifest } from './manifests.ts';

const MODELS: Readonly<Record<string, object>> = {
  v1: core,
  'apps/v1': apps,
  'autoscaling/v2': autoscaling,
  'batch/v1': batch,
  'monitoring.coreos.com/v1': prometheus,
  'networking.k8s.io/v1': networking,
  'policy/v1': policy,
};

const ajv = new Ajv({ allErrors: true });
const CUSTOM: Readonly<Record<string, ReturnType<typeof ajv.compile>>> = {
  'gateway.networking.k8s.io/v1 HTTPRoute': ajv.compile(HTTP_ROUTE),
  'keda.sh/v1alpha1 ScaledObject': ajv.compile(SCALED_OBJECT),
};

/** The schema errors of a manifest, including unknown fields, which a server may drop silently. */
export function schemaErrors(manifest: Manifest): string[] {
  const { apiVersion, kind } = manifest;
  const custom = CUSTOM[`${apiVersion} ${kind}`];
  if (custom) {
    custom(manifest);
    return (custom.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
  }
  const model = (MODELS[apiVersion] as Record<string, { prototype: object }> | undefined)?.[kind];
  if (!model) return [`there is no schema for ${apiVersion} ${kind}`];
  const readPaths = new Set<string>();
  const copy = Object.setPrototypeOf(structuredClone(manifest), model.prototype);
  try {
    (recordReads(copy, '', readPaths) as { validate(): void }).validate();
  } catch (error) {
    return [(error as Error).message];
  }
  return unknownFields(manifest, '', readPaths).map((path) => `${path} is not a field of ${kind}`);
}

/**
 * Records which fields a validator reads. The models accept unknown fields, but their validators read every known field and
 * all entries of maps, so a field that is never read is unknown.
 */
function recordReads<T>(value: T, path: string, readPaths: Set<string>): T {
  if (typeof value !== 'object' || value === null) return value;
  return new Proxy(value as object, {
    get(target, name) {
      const at = `${path}/${String(name)}`;
      readPaths.add(at);
      return recordReads(Reflect.get(target, name), at, readPaths);
    },
  }) as T;
}

function unknownFields(value: unknown, path: string, readPaths: ReadonlySet<string>): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const at = `${path}/${name}`;
    return readPaths.has(at) ? unknownFields(inner, at, readPaths) : [at];
  });
}
