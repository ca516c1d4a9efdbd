{{/* The pod of an executor, without its workspace volume if that comes from a claim. */}}
{{- define "exec-server.executorPod" -}}
{{- $values := .Values -}}
{{- $drainSeconds := int64 .Values.executors.drainSeconds -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ add $drainSeconds 30 }}
{{- with $values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $values.executors.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with $values.executors.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $values.executors.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- if $values.sandbox.enabled }}
hostUsers: false
{{- end }}
securityContext:
  {{- include "exec-server.podSecurity" . | nindent 2 }}
  seccompProfile: {{ if $values.sandbox.enabled }}{{ toYaml $values.sandbox.seccompProfile | nindent 4 }}{{ else }}{ type: RuntimeDefault }{{ end }}
containers:
  - name: executor
    image: {{ include "exec-server.image" . }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    {{- $isNamed := and (eq $values.access "relay") (eq $values.executors.kind "statefulSet") }}
    {{- if $isNamed }}
    # The key of a Secret in a variable cannot depend on the pod, so the token of a StatefulSet's pod is a file. $$ is a $ for the shell.
    command:
      - /usr/bin/tini
      - -s
      - --
      - sh
      - -c
      - EXEC_SERVER_API_KEY=$$(cat /run/secrets/exec-server/token) && export EXEC_SERVER_API_KEY && exec exec-server "$@"
      - exec-server
    {{- end }}
    args:
      - serve
      {{- if eq $values.access "relay" }}
      - --remote={{ $values.relay.url }}
      - --environment-id=$(ENVIRONMENT)
      {{- else }}
      - --listen=ws://0.0.0.0:{{ $values.service.port }}
      - --ws-auth=capability-token
      - --ws-token-file=/run/secrets/exec-server/token
      # Clients use a name of the service, which only the cluster resolves.
      - --allowed-host=*
      {{- end }}
      - --metrics-listen=0.0.0.0:9464
      - --pid-file=/tmp/exec-server.pid
      - --drain-timeout={{ $drainSeconds }}s
      - --log-level=info
      {{- range $values.executors.args }}
      # Kubernetes takes only strings; --set makes numbers and booleans of 5 and true.
      - {{ ternary . (toJson .) (kindIs "string" .) | quote }}
      {{- end }}
    {{- if or $isNamed $values.executors.env }}
    env:
      {{- if $isNamed }}
      - name: ENVIRONMENT
        valueFrom: { fieldRef: { fieldPath: metadata.name } }
      {{- end }}
      {{- with $values.executors.env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- end }}
    ports:
      {{- if eq $values.access "service" }}
      - { name: clients, containerPort: {{ $values.service.port }} }
      {{- end }}
      - { name: metrics, containerPort: 9464 }
    startupProbe:
      httpGet: { path: /healthz, port: metrics }
      periodSeconds: 1
      failureThreshold: 60
    readinessProbe:
      httpGet: { path: /readyz, port: metrics }
      periodSeconds: 5
    livenessProbe:
      httpGet: { path: /healthz, port: metrics }
      periodSeconds: 10
      failureThreshold: 6
    {{- if $drainSeconds }}
    lifecycle:
      preStop:
        exec:
          command: [exec-server, drain, --pid-file, /tmp/exec-server.pid, --timeout, {{ $drainSeconds }}s]
    {{- end }}
    resources: {{ toYaml $values.executors.resources | nindent 6 }}
    securityContext:
      {{- include "exec-server.containerSecurity" . | nindent 6 }}
      {{- if $values.sandbox.enabled }}
      procMount: Unmasked
      {{- end }}
    volumeMounts:
      - { name: workspace, mountPath: /workspace }
      - { name: state, mountPath: /var/lib/exec-server }
      - { name: tmp, mountPath: /tmp }
      {{- if include "exec-server.credentials" . }}
      {{- if $isNamed }}
      # One key of the Secret: the programs of an executor must not find the tokens of other executors.
      - { name: credentials, mountPath: /run/secrets/exec-server/token, subPathExpr: $(ENVIRONMENT), readOnly: true }
      {{- else }}
      - { name: credentials, mountPath: /run/secrets/exec-server, readOnly: true }
      {{- end }}
      {{- end }}
volumes:
  - name: state
    emptyDir: {}
  - name: tmp
    emptyDir: {}
  {{- if not $values.executors.workspace.size }}
  - name: workspace
    emptyDir: {}
  {{- end }}
{{- with include "exec-server.credentials" . }}
  - name: credentials
    secret:
      secretName: {{ . | quote }}
      defaultMode: 0440
  {{- end }}
{{- end }}

{{/* The Secret that executors read. With a relay, executors of a template get their token from the claim. */}}
{{- define "exec-server.credentials" -}}
{{- if eq .Values.access "service" -}}
{{ .Values.service.tokenSecret }}
{{- else if eq .Values.executors.kind "statefulSet" -}}
{{ .Values.relay.executorTokens }}
{{- end -}}
{{- end }}

{{/* The claim of the workspace volume. */}}
{{- define "exec-server.workspaceClaim" -}}
- metadata:
    name: workspace
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .Values.executors.workspace.storageClassName }}
    storageClassName: {{ . | quote }}
    {{- end }}
    resources:
      requests:
        storage: {{ .Values.executors.workspace.size }}
{{- end }}

{{/* The rules for the network of executors. */}}
{{- define "exec-server.executorEgress" -}}
- ports:
    - { protocol: UDP, port: 53 }
    - { protocol: TCP, port: 53 }
{{- with .Values.executors.egress }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "exec-server.executorIngress" -}}
{{- if eq .Values.access "service" }}
{{- include "exec-server.ingressRule" (dict "clients" .Values.service.clients "port" .Values.service.port) }}
{{- end }}
{{- include "exec-server.ingressRule" (dict "clients" .Values.metrics.clients "port" 9464) }}
{{- end }}
