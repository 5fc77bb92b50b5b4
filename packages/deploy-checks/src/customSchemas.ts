/** Schemas of custom resources without a maintained schema package: only the fields that the chart uses. */

const text = { type: 'string', minLength: 1 } as const;
const integer = { type: 'integer', minimum: 0 } as const;
const texts = { type: 'object', additionalProperties: text } as const;

const strict = (properties: Record<string, object>, optional: readonly string[] = []) => ({
  type: 'object',
  additionalProperties: false,
  required: Object.keys(properties).filter((name) => !optional.includes(name)),
  properties,
});
const someOf = (items: object) => ({ type: 'array', minItems: 1, items });

const metadata = strict({ name: text, namespace: text, labels: texts, annotations: texts }, [
  'namespace',
  'labels',
  'annotations',
]);

/** https://gateway-api.sigs.k8s.io/reference/spec/#httproute */
export const HTTP_ROUTE = strict({
  apiVersion: { const: 'gateway.networking.k8s.io/v1' },
  kind: { const: 'HTTPRoute' },
  metadata,
  spec: strict({
    parentRefs: someOf(
      strict({ name: text, namespace: text, sectionName: text, port: integer }, [
        'namespace',
        'sectionName',
        'port',
      ]),
    ),
    hostnames: someOf(text),
    rules: someOf(
      strict(
        {
          matches: someOf(
            strict({
              path: strict({ type: { enum: ['Exact', 'PathPrefix', 'RegularExpression'] }, value: text }),
            }),
          ),
          backendRefs: someOf(strict({ name: text, port: integer })),
          timeouts: strict({ request: { type: 'string', pattern: '^([0-9]{1,5}(h|m|s|ms)){1,4}$' } }),
        },
        ['timeouts'],
      ),
    ),
  }),
});

/** https://keda.sh/docs/latest/reference/scaledobject-spec/, https://keda.sh/docs/latest/scalers/nats-jetstream/ */
export const SCALED_OBJECT = strict({
  apiVersion: { const: 'keda.sh/v1alpha1' },
  kind: { const: 'ScaledObject' },
  metadata,
  spec: strict({
    scaleTargetRef: strict({ name: text }),
    minReplicaCount: integer,
    maxReplicaCount: integer,
    cooldownPeriod: integer,
    triggers: someOf(
      strict({
        type: { const: 'nats-jetstream' },
        metadata: strict({
          natsServerMonitoringEndpoint: text,
          account: text,
          stream: text,
          consumer: text,
          lagThreshold: { type: 'string', pattern: '^[0-9]+$' },
        }),
      }),
    ),
  }),
});
