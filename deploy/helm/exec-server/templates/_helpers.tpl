{{- define "exec-server.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "exec-server.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "exec-server.labels" -}}
{{ include "exec-server.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "exec-server.selector" -}}
app.kubernetes.io/name: exec-server
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* What every pod of this chart has. */}}
{{- define "exec-server.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
{{- end }}

{{- define "exec-server.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* A rule of a NetworkPolicy that lets clients connect to a port. Without clients there is no rule: one with an empty list lets everything connect. */}}
{{- define "exec-server.ingressRule" -}}
{{- with .clients }}
- from: {{ toYaml . | nindent 4 }}
  ports:
    - { protocol: TCP, port: {{ $.port }} }
{{- end }}
{{- end }}

{{/*
The values that belong together; a wrong combination is refused here and not by a pod that does not start. values.schema.json refuses
single values.
*/}}
{{- define "exec-server.check" -}}
{{- $values := .Values -}}
{{- $name := include "exec-server.name" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) }}{{ fail (printf "the release name %s must start with a letter and have only letters, digits and hyphens, because Services get it" $name) }}{{ end -}}
{{- if and (eq $values.access "service") (not $values.service.tokenSecret) }}{{ fail "access: service needs service.tokenSecret, a Secret with the key token" }}{{ end -}}
{{- if eq $values.access "relay" -}}
{{- if not $values.relay.url }}{{ fail "access: relay needs relay.url, the URL at which executors and clients reach the relay" }}{{ end -}}
{{- if and (eq $values.executors.kind "statefulSet") (not $values.relay.executorTokens) }}{{ fail "access: relay needs relay.executorTokens, a Secret with one token per environment" }}{{ end -}}
{{- if and $values.relay.enabled (not $values.relay.secret) }}{{ fail "relay.enabled needs relay.secret, a Secret with the key secret" }}{{ end -}}
{{- if and $values.relay.enabled (gt (int $values.relay.replicas) 1) (not $values.redis.enabled) (not $values.redis.urlSecret) }}{{ fail "several relay nodes need redis.enabled or redis.urlSecret" }}{{ end -}}
{{- end -}}
{{- if and $values.sandbox.enabled $values.executors.runtimeClassName }}{{ fail "sandbox.enabled needs the default runtime; a runtimeClassName isolates the pod itself" }}{{ end -}}
{{- end }}
