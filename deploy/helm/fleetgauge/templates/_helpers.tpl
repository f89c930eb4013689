{{- define "fleetgauge.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "fleetgauge.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "fleetgauge.labels" -}}
{{ include "fleetgauge.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "fleetgauge.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "fleetgauge.name" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- /* A mapping as TOML, one full key per line. Strings and lists of JSON are those of TOML. */ -}}
{{- define "fleetgauge.toml" -}}
{{- range $key, $value := .values -}}
{{- if kindIs "map" $value -}}
{{ include "fleetgauge.toml" (dict "values" $value "prefix" (printf "%s%s." $.prefix ($key | toJson))) }}
{{- else if not (kindIs "invalid" $value) }}
{{ $.prefix }}{{ $key | toJson }} = {{ $value | toJson }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "fleetgauge.config" -}}
{{ include "fleetgauge.toml" (dict "values" .values "prefix" "") | trim }}
{{- end }}

{{- /* Not empty for the parts that clients of Kafka connect to. */ -}}
{{- define "fleetgauge.listens" -}}
{{- if has . (list "serve" "gateway") }}yes{{ end }}
{{- end }}

{{- define "fleetgauge.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "fleetgauge.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* What all pods have. Without service links: they would be variables FLEETGAUGE_..., which are configuration keys. */ -}}
{{- define "fleetgauge.pod" -}}
serviceAccountName: {{ include "fleetgauge.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext: {{- include "fleetgauge.podSecurity" . | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "fleetgauge.environment" -}}
- {name: HOME, value: /var/lib/fleetgauge}
{{- if include "fleetgauge.listens" .part }}
{{- $set := printf "%s-%s" (include "fleetgauge.name" .root) .part }}
{{- $pods := printf "%s-pods.%s.svc:9092" $set .root.Release.Namespace }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: BROKER_ID
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}
- {name: FLEETGAUGE_NODE_ID, value: $(BROKER_ID)}
- name: FLEETGAUGE_ADVERTISED_LISTENERS
  value: {{ default (printf "PLAINTEXT://$(POD_NAME).%s" $pods) .values.advertisedListeners | quote }}
{{- if eq .part "gateway" }}
- {name: FLEETGAUGE_GATEWAY_BROKER, value: {{ .values.broker | quote }}}
{{- if not (hasKey .values.config "gateway.nodes") }}
- {name: FLEETGAUGE_GATEWAY_NODES, value: "*={{ $set }}-{id}.{{ $pods }}"}
{{- end }}
{{- end }}
{{- end }}
{{- with .values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "fleetgauge.mounts" -}}
- {name: data, mountPath: /var/lib/fleetgauge}
- {name: tmp, mountPath: /tmp}
{{- range $number, $name := .values.secrets }}
- {name: secret-{{ $number }}, mountPath: /etc/fleetgauge/secrets/{{ $name }}, readOnly: true}
{{- end }}
{{- end }}

{{- define "fleetgauge.volumes" -}}
- {name: tmp, emptyDir: {}}
{{- range $number, $name := .values.secrets }}
- name: secret-{{ $number }}
  secret: {secretName: {{ $name }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{- /* The pod template of serve, gateway, export and console. */ -}}
{{- define "fleetgauge.template" -}}
metadata:
  labels: {{- include "fleetgauge.labels" . | nindent 4 }}
  annotations:
    checksum/config: {{ include "fleetgauge.config" (dict "values" .values.config) | sha256sum }}
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- include "fleetgauge.pod" . | nindent 2 }}
  terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
  containers:
    - name: {{ .part }}
      image: "{{ .root.Values.image.repository }}:{{ default .root.Chart.AppVersion .root.Values.image.tag }}"
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      # A directory of its own below the volume, which others of the pod's group may list.
      args: [{{ .part }}, --config, /etc/fleetgauge/fleetgauge.toml, --override, log.dirs=/var/lib/fleetgauge/data]
      env: {{- include "fleetgauge.environment" . | nindent 8 }}
      {{- with .values.envFrom }}
      envFrom: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext: {{- include "fleetgauge.containerSecurity" . | nindent 8 }}
      ports:
        - {name: http, containerPort: 9465}
        {{- if ne .part "console" }}
        - {name: clients, containerPort: 9464}
        {{- end }}
        {{- if include "fleetgauge.listens" .part }}
        - {name: kafka, containerPort: 9092}
        {{- end }}
      startupProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 20
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: {{ if eq .part "console" }}/healthz{{ else }}/readyz{{ end }}, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
      resources: {{- toYaml .values.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/fleetgauge/fleetgauge.toml, subPath: fleetgauge.toml, readOnly: true}
        {{- include "fleetgauge.mounts" . | nindent 8 }}
  volumes:
    - name: config
      configMap: {name: {{ include "fleetgauge.name" .root }}-{{ .part }}}
    {{- if not (dig "persistence" "enabled" false .values) }}
    - {name: data, emptyDir: {}}
    {{- end }}
    {{- include "fleetgauge.volumes" . | nindent 4 }}
{{- end }}

{{- define "fleetgauge.claim" -}}
- metadata: {name: data}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .storageClass }}
    storageClassName: {{ . }}
    {{- end }}
    resources: {requests: {storage: {{ .size }}}}
{{- end }}

{{- define "fleetgauge.endpoint" -}}
interval: {{ .interval }}
{{- with .endpoint }}
{{ toYaml . }}
{{- end }}
{{- end }}
