/** The kinds of operators that the chart or its examples use. */
export const CUSTOM_KINDS = [
  { group: 'monitoring.coreos.com', version: 'v1', kind: 'PodMonitor', plural: 'podmonitors' },
  { group: 'monitoring.coreos.com', version: 'v1', kind: 'PrometheusRule', plural: 'prometheusrules' },
  { group: 'gateway.networking.k8s.io', version: 'v1', kind: 'HTTPRoute', plural: 'httproutes' },
  { group: 'keda.sh', version: 'v1alpha1', kind: 'ScaledObject', plural: 'scaledobjects' },
  { group: 'postgresql.cnpg.io', version: 'v1', kind: 'Cluster', plural: 'clusters' },
  { group: 'cert-manager.io', version: 'v1', kind: 'Issuer', plural: 'issuers' },
  { group: 'cert-manager.io', version: 'v1', kind: 'Certificate', plural: 'certificates' },
  { group: 'external-secrets.io', version: 'v1', kind: 'ExternalSecret', plural: 'externalsecrets' },
] as const;
