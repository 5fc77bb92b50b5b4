{{/* Common part of all pods: (dict "root" $ "component" "metering" "values" .Values.metering). */}}
{{- define "weighbridge.podMetadata" -}}
labels:
  {{- include "weighbridge.podLabels" . | nindent 2 }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "weighbridge.podSpec" -}}
serviceAccountName: {{ .account | default (include "weighbridge.serviceAccount" .root) | quote }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
securityContext: {{- include "weighbridge.podSecurity" . | nindent 2 }}
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: {{ ternary $.values.spread.zones $.values.spread.nodes (hasSuffix "zone" .) }}
    labelSelector:
      matchLabels:
        {{- include "weighbridge.selector" $ | nindent 8 }}
  {{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "weighbridge.podSecurity" -}}
runAsNonRoot: true
{{- with int64 .root.Values.runAsUser }}
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "weighbridge.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: { drop: [ALL] }
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{/* An app's container up to its variables. "ports" maps names to numbers. */}}
{{- define "weighbridge.container" -}}
name: {{ .component }}
image: {{ include "weighbridge.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: [{{ .component }}.js]
ports:
  {{- range $name, $port := .ports }}
  - { name: {{ $name }}, containerPort: {{ $port }}, protocol: TCP }
  {{- end }}
  {{- with .root.Values.monitoring.metricsPort }}
  - { name: metrics, containerPort: {{ . }}, protocol: TCP }
  {{- end }}
securityContext:
  {{- include "weighbridge.containerSecurity" . | nindent 2 }}
# What an app says last, if it ends without a message.
terminationMessagePolicy: FallbackToLogsOnError
resources:
  {{- toYaml .values.resources | nindent 2 }}
# An app listens when it can serve: after its first snapshot, or when the database responds.
startupProbe:
  httpGet: { path: /healthz, port: http }
  periodSeconds: 2
  failureThreshold: 60
# Liveness checks only the event loop: dependencies may come back without a restart.
livenessProbe:
  httpGet: { path: /healthz, port: http }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /readyz, port: http }
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
{{- end }}

{{- define "weighbridge.caMount" -}}
{{- if .Values.caBundle.configMap -}}
- { name: ca-bundle, mountPath: /etc/ssl/weighbridge, readOnly: true }
{{- end }}
{{- end }}

{{- define "weighbridge.caVolume" -}}
{{- with .Values.caBundle -}}
{{- if .configMap -}}
- name: ca-bundle
  configMap: { name: {{ .configMap | quote }}, items: [{ key: {{ .key | quote }}, path: ca.crt }] }
{{- end }}
{{- end }}
{{- end }}

{{/* Of an app's values, such as .Values.metering. */}}
{{- define "weighbridge.extraMounts" -}}
{{- with .extraVolumeMounts -}}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- define "weighbridge.extraVolumes" -}}
{{- with .extraVolumes -}}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* Not below /etc/weighbridge, where `file:` references may point: this key must never be sent to a vendor. */}}
{{- define "weighbridge.tlsMount" -}}
{{- if .Values.tls.enabled }}
- { name: tls, mountPath: /etc/tls/weighbridge, readOnly: true }
{{- end }}
{{- end }}

{{/* (dict "root" $ "secret" "name"): mounts the whole secret, so that a renewed certificate appears. */}}
{{- define "weighbridge.tlsVolume" -}}
{{- if .root.Values.tls.enabled }}
- name: tls
  secret: { secretName: {{ .secret | quote }}, defaultMode: 288 }
{{- end }}
{{- end }}
