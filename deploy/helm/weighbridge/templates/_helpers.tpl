{{/* The release's name, cut so that a component's suffix fits into a Kubernetes name. */}}
{{- define "weighbridge.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- end }}

{{/* Selector labels of a component: (dict "root" $ "component" "metering"). Without a component, of all pods. */}}
{{- define "weighbridge.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{/* Labels of pods: none of the chart's version, so that a new chart with the same image restarts nothing. */}}
{{- define "weighbridge.podLabels" -}}
{{ include "weighbridge.selector" . }}
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "weighbridge.labels" -}}
{{ include "weighbridge.podLabels" . }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "weighbridge.image" -}}
{{- with .Values.image -}}
{{- $repository := required "Set image.repository to the repository of the image, such as registry.example.com/weighbridge/weighbridge" .repository }}
{{- if .digest }}{{ $repository }}@{{ .digest }}
{{- else }}{{ $repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "weighbridge.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "weighbridge.fullname" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{/* Of the data plane: its own if it has a name or annotations. */}}
{{- define "weighbridge.dataPlaneAccount" -}}
{{- $own := .Values.dataPlane.serviceAccount }}
{{- if $own.name }}{{ $own.name }}
{{- else if $own.annotations }}{{ include "weighbridge.fullname" . }}-data-plane
{{- else }}{{ include "weighbridge.serviceAccount" . }}{{ end }}
{{- end }}

{{/* Helm reads YAML numbers as floats: 2147483648 must not become 2.147483648e+09. */}}
{{- define "weighbridge.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* A variable from a secret: (dict "name" "X" "secret" "s" "key" "k"). */}}
{{- define "weighbridge.secretEnv" -}}
- name: {{ .name }}
  valueFrom: { secretKeyRef: { name: {{ .secret | quote }}, key: {{ .key | quote }} } }
{{- end }}

{{- define "weighbridge.databaseEnv" -}}
{{ include "weighbridge.secretEnv" (dict "name" "DATABASE_URL" "secret" .Values.database.existingSecret "key" .Values.database.key) }}
{{- end }}

{{- define "weighbridge.migrationDatabaseEnv" -}}
{{- with .Values.database -}}
{{ include "weighbridge.secretEnv" (dict "name" "DATABASE_URL" "secret" .existingSecret "key" (.migrationKey | default .key)) }}
{{- end }}
{{- end }}

{{- define "weighbridge.caEnv" -}}
{{- if .Values.caBundle.configMap -}}
{{- range list .Values.controlPlane .Values.dataPlane .Values.metering }}
{{- if hasKey .settings "NODE_EXTRA_CA_CERTS" }}{{ fail "caBundle.configMap sets NODE_EXTRA_CA_CERTS: put all certificates there, and remove the setting" }}{{ end }}
{{- end -}}
- { name: NODE_EXTRA_CA_CERTS, value: /etc/ssl/weighbridge/ca.crt }
{{- end }}
{{- end }}

{{- define "weighbridge.ipFamilies" -}}
{{- with .Values.network.ipFamilyPolicy -}}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- end }}

{{/* (dict "root" $ "key" "the key of this app's address") */}}
{{- define "weighbridge.natsEnv" -}}
{{- $key := .key -}}
{{- with .root.Values.nats -}}
{{- if .url -}}
- { name: NATS_URL, value: {{ .url | quote }} }
{{- else -}}
{{ include "weighbridge.secretEnv" (dict "name" "NATS_URL" "secret" .existingSecret "key" $key) }}
{{- end }}
- { name: NATS_STREAM_REPLICAS, value: {{ include "weighbridge.text" .replicas | quote }} }
- { name: NATS_STREAM_MAX_BYTES, value: {{ include "weighbridge.text" .streamMaxBytes | quote }} }
{{- end }}
{{- end }}

{{- define "weighbridge.metricsEnv" -}}
{{- with .Values.monitoring.metricsPort }}
- { name: METRICS_HOST, value: {{ $.Values.network.listen | quote }} }
- { name: METRICS_PORT, value: {{ include "weighbridge.text" . | quote }} }
{{- end }}
{{- end }}

{{- define "weighbridge.tlsEnv" -}}
{{- if .Values.tls.enabled -}}
- { name: CONTROL_TLS_CERTIFICATE_FILE, value: /etc/tls/weighbridge/tls.crt }
- { name: CONTROL_TLS_KEY_FILE, value: /etc/tls/weighbridge/tls.key }
- { name: CONTROL_TLS_CA_FILE, value: /etc/tls/weighbridge/ca.crt }
{{- end }}
{{- end }}

{{- define "weighbridge.oidcEnv" -}}
{{- if .issuer -}}
- { name: OIDC_ISSUER, value: {{ .issuer | quote }} }
{{- with .audiences }}
- { name: OIDC_AUDIENCE, value: {{ join "," . | quote }} }
{{- end }}
- { name: OIDC_PRINCIPAL_CLAIM, value: {{ .principalClaim | quote }} }
{{- with .principalPrefix }}
- { name: OIDC_PRINCIPAL_PREFIX, value: {{ . | quote }} }
{{- end }}
- { name: OIDC_SCOPES_CLAIM, value: {{ .scopesClaim | quote }} }
- { name: OIDC_SCOPE_MAP, value: {{ toJson .scopeMap | quote }} }
- { name: OIDC_CLOCK_TOLERANCE_SECONDS, value: {{ .clockToleranceSeconds | quote }} }
{{- end }}
{{- end }}

{{- define "weighbridge.signInEnv" -}}
{{- $oidc := .Values.controlPlane.oidc -}}
{{- if $oidc.clientId -}}
{{- $key := .Values.secrets.keys.oidcClientSecret -}}
{{- if not $key }}{{ fail "controlPlane.oidc.clientId needs secrets.keys.oidcClientSecret" }}{{ end -}}
{{- if not .Values.controlPlane.settings.PUBLIC_URL }}{{ fail "controlPlane.oidc.clientId needs controlPlane.settings.PUBLIC_URL: the issuer sends people back to it" }}{{ end -}}
- { name: OIDC_CLIENT_ID, value: {{ $oidc.clientId | quote }} }
{{ include "weighbridge.secretEnv" (dict "name" "OIDC_CLIENT_SECRET" "secret" .Values.secrets.existingSecret "key" $key) }}
- { name: OIDC_SIGN_IN_SCOPES, value: {{ $oidc.signInScopes | quote }} }
{{- with $oidc.signInName }}
- { name: OIDC_SIGN_IN_NAME, value: {{ . | quote }} }
{{- end }}
{{- end }}
{{- end }}

{{/* (dict "root" $ "component" "data-plane") */}}
{{- define "weighbridge.tracesEnv" -}}
{{- with .root.Values.traces -}}
{{- if .endpoint -}}
- { name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ .endpoint | quote }} }
- { name: OTEL_TRACES_SAMPLER_ARG, value: {{ include "weighbridge.text" .ratio | quote }} }
- { name: OTEL_SERVICE_NAME, value: "{{ include "weighbridge.fullname" $.root }}-{{ $.component }}" }
{{- with $.root.Values.secrets.keys.tracesHeaders }}
{{ include "weighbridge.secretEnv" (dict "name" "OTEL_EXPORTER_OTLP_HEADERS" "secret" $.root.Values.secrets.existingSecret "key" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* A map of settings as variables. */}}
{{- define "weighbridge.settingsEnv" -}}
{{- range $name, $value := . }}
- { name: {{ $name }}, value: {{ include "weighbridge.text" $value | quote }} }
{{- end }}
{{- end }}
