import { type Labels, type Manifest, ofKind, selects } from './manifests.ts';

interface Peer {
  readonly podSelector?: { readonly matchLabels?: Labels };
  readonly namespaceSelector?: { readonly matchLabels?: Labels };
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
}

interface Rule {
  readonly from?: readonly Peer[];
  readonly to?: readonly Peer[];
  readonly ports?: readonly { readonly port: number }[];
}

/** The properties of a pod by which policies select it. */
export interface Pod {
  readonly labels: Labels;
  readonly namespace: string;
}

/**
 * Whether policies let one pod connect to another: https://kubernetes.io/docs/concepts/services-networking/network-policies/.
 * All policies are in the namespace `weighbridge`.
 */
export function mayConnect(all: readonly Manifest[], from: Pod, to: Pod, port: number): boolean {
  const allows = (direction: 'Ingress' | 'Egress', of: Pod, other: Pod) => {
    const rules = rulesOf(all, direction, of);
    return rules?.some((rule) => hasPort(rule, port) && isPeer(peersOf(rule), other)) ?? true;
  };
  return allows('Egress', from, to) && allows('Ingress', to, from);
}

/** The ports on which policies allow a pod to connect to targets outside of the release; undefined: all. */
export function portsOut(all: readonly Manifest[], from: Pod): number[] | undefined {
  const rules = rulesOf(all, 'Egress', from);
  return rules
    ?.filter((rule) => peersOf(rule)?.every(({ podSelector }) => !isOwn(podSelector?.matchLabels)) ?? true)
    .flatMap(({ ports = [] }) => ports.map(({ port }) => port))
    .filter((port, at, ports) => ports.indexOf(port) === at)
    .sort((a, b) => a - b);
}

/** The rules that apply to a pod; undefined if no policy selects it, so that everything is allowed. */
function rulesOf(all: readonly Manifest[], direction: 'Ingress' | 'Egress', pod: Pod): Rule[] | undefined {
  const policies = ofKind(all, 'NetworkPolicy').filter(
    ({ spec }) =>
      pod.namespace === 'weighbridge' &&
      spec.policyTypes.includes(direction) &&
      selects(spec.podSelector.matchLabels ?? {}, pod.labels),
  );
  if (policies.length === 0) return undefined;
  return policies.flatMap(({ spec }) => (spec[direction.toLowerCase()] ?? []) as Rule[]);
}

const peersOf = ({ from, to }: Rule): readonly Peer[] | undefined => from ?? to;

const hasPort = ({ ports }: Rule, port: number): boolean =>
  ports === undefined || ports.some((one) => one.port === port);

/** A rule without peers, or with an empty list, allows everyone. */
function isPeer(peers: readonly Peer[] | undefined, { labels, namespace }: Pod): boolean {
  if (peers === undefined || peers.length === 0) return true;
  return peers.some(({ podSelector, namespaceSelector, ipBlock }) => {
    if (ipBlock) return false;
    const isThere = namespaceSelector
      ? selects(namespaceSelector.matchLabels ?? {}, { 'kubernetes.io/metadata.name': namespace })
      : namespace === 'weighbridge';
    return isThere && selects(podSelector?.matchLabels ?? {}, labels);
  });
}

const isOwn = (labels: Labels | undefined): boolean => labels?.['app.kubernetes.io/name'] === 'weighbridge';
